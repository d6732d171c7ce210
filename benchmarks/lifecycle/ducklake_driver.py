"""One DuckLake table, driven by lines of JSON; runs in an environment of its own."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any


def main(folder: str) -> None:
    duckdb: Any = importlib.import_module("duckdb")
    package: Any = importlib.import_module("duckdb_extension_ducklake")
    extension = next(Path(package.__file__).parent.rglob("*.duckdb_extension"))
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    connection.execute(f"LOAD '{extension}'")
    connection.execute(f"ATTACH 'ducklake:{folder}/meta.ducklake' AS lake (DATA_PATH '{folder}/data')")
    connection.execute("USE lake")
    table = Table(connection)
    for line in sys.stdin:
        name, *words = json.loads(line)
        try:
            answer = {"result": getattr(table, name)(*words)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


class Table:
    """The operations of a contender; rows come as Parquet files."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._is_there = False

    def write(self, path: str) -> None:
        rows = f"SELECT * FROM read_parquet('{path}')"
        self._connection.execute(f"INSERT INTO t {rows}" if self._is_there else f"CREATE TABLE t AS {rows}")
        self._is_there = True

    def delete(self, condition: str) -> None:
        self._connection.execute(f"DELETE FROM t WHERE {condition}")

    def merge(self, path: str) -> None:
        self._connection.execute(
            f"MERGE INTO t USING (SELECT * FROM read_parquet('{path}')) s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE WHEN NOT MATCHED THEN INSERT"
        )

    def compact(self) -> None:
        self._connection.execute("CALL ducklake_merge_adjacent_files('lake')")

    def scan(self, *columns: str) -> int:
        chosen = ", ".join(f'"{column}"' for column in columns) or "*"
        found = self._connection.execute(f"SELECT {chosen} FROM t").arrow()
        return int(found.read_all().num_rows if hasattr(found, "read_all") else found.num_rows)


if __name__ == "__main__":
    main(sys.argv[1])
