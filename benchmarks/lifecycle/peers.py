"""The contenders, each with the same few operations on one table."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

import lode
from benchmarks.rounds import ChildError, MissingError, require

if TYPE_CHECKING:
    from collections.abc import Iterable

# The extension is published for this version of DuckDB only, so it runs in an environment of its own.
DUCKLAKE: Final = ("duckdb==1.5.5", "duckdb-extension-ducklake==1.5.5", "pyarrow>=20")
_DRIVER: Final = Path(__file__).with_name("ducklake_driver.py")
_ROOT: Final = Path(__file__).parents[2]


class Lode:
    """This library, on a directory that is not synced, as the others are not."""

    def __init__(self, folder: Path) -> None:
        self._url = f"file://{folder}?durable=false"
        self.dataset = lode.Dataset("d", self._url, codec="parquet")

    def write(self, table: pa.Table) -> None:
        self.dataset.write(table)

    append = write

    def delete(self, condition: str) -> None:
        self.dataset.delete(condition)

    def merge(self, rows: pa.Table) -> None:
        self.dataset.merge(rows, on=["id"])

    def compact(self) -> None:
        self.dataset.compact()

    def scan(self, columns: list[str] | None) -> int:
        return lode.Dataset("d", self._url).scan(columns=columns).read_all().num_rows

    def close(self) -> None:
        pass


class Delta:
    """delta-rs."""

    def __init__(self, folder: Path) -> None:
        require("deltalake")
        self._package: Any = importlib.import_module("deltalake")
        self._root = str(folder)

    def write(self, table: pa.Table) -> None:
        self._package.write_deltalake(self._root, table, mode="append")

    append = write

    def delete(self, condition: str) -> None:
        self._table().delete(condition)

    def merge(self, rows: pa.Table) -> None:
        merger = self._table().merge(rows, "t.id = s.id", source_alias="s", target_alias="t")
        merger.when_matched_update_all().when_not_matched_insert_all().execute()

    def compact(self) -> None:
        self._table().optimize.compact()

    def scan(self, columns: list[str] | None) -> int:
        return int(self._table().to_pyarrow_dataset().to_table(columns=columns).num_rows)

    def close(self) -> None:
        pass

    def _table(self) -> Any:
        return self._package.DeltaTable(self._root)


class Lance:
    """Lance."""

    def __init__(self, folder: Path) -> None:
        require("lance")
        self._package: Any = importlib.import_module("lance")
        self._root = str(folder)

    def write(self, table: pa.Table) -> None:
        self._package.write_dataset(
            table, self._root, mode="append" if Path(self._root).exists() else "create"
        )

    append = write

    def delete(self, condition: str) -> None:
        self._open().delete(condition)

    def merge(self, rows: pa.Table) -> None:
        builder = self._open().merge_insert("id")
        builder.when_matched_update_all().when_not_matched_insert_all().execute(rows)

    def compact(self) -> None:
        self._open().optimize.compact_files()

    def scan(self, columns: list[str] | None) -> int:
        return int(self._open().to_table(columns=columns).num_rows)

    def close(self) -> None:
        pass

    def _open(self) -> Any:
        return self._package.dataset(self._root)


class Iceberg:
    """pyiceberg on a catalog in SQLite."""

    def __init__(self, folder: Path) -> None:
        require("pyiceberg")
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        sql: Any = importlib.import_module("pyiceberg.catalog.sql")
        self._catalog = sql.SqlCatalog(
            "bench", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}"
        )
        self._catalog.create_namespace_if_not_exists("bench")
        self._table: Any = None

    def write(self, table: pa.Table) -> None:
        if self._table is None:
            self._table = self._catalog.create_table("bench.t", schema=table.schema)
        self._table.append(table)

    append = write

    def add_files(self, tables: Iterable[pa.Table]) -> None:
        """Append each table as a file, with one commit."""
        paths = []
        for number, table in enumerate(tables):
            if self._table is None:
                self._table = self._catalog.create_table("bench.t", schema=table.schema)
            paths.append(f"{self._folder}/added-{number}.parquet")
            pq.write_table(table, paths[-1], compression="zstd")
        self._table.add_files([f"file://{path}" for path in paths])

    def delete(self, condition: str) -> None:
        self._table.delete(condition)

    def merge(self, rows: pa.Table) -> None:
        self._table.upsert(rows, join_cols=["id"])

    def compact(self) -> None:
        raise MissingError("pyiceberg has no compaction")

    def scan(self, columns: list[str] | None) -> int:
        return int(self._table.scan(selected_fields=tuple(columns or ("*",))).to_arrow().num_rows)

    def close(self) -> None:
        pass


class DuckLake:
    """DuckDB with its extension, in a process of its own."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._process = subprocess.Popen(
            [_ducklake_python(), _DRIVER, folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def write(self, table: pa.Table) -> None:
        self.insert(self.stored(table))

    append = write

    def stored(self, table: pa.Table) -> str:
        """The rows as a file that the other process reads."""
        # A new name each time: DuckDB remembers the footer of a file that it has read.
        path = self._folder / f"rows-{time.monotonic_ns()}.parquet"
        pq.write_table(table, path)
        return str(path)

    def insert(self, path: str) -> None:
        self._call("write", path)

    def delete(self, condition: str) -> None:
        self._call("delete", condition)

    def merge(self, rows: pa.Table) -> None:
        path = self._folder / "merge.parquet"
        pq.write_table(rows, path)
        self._call("merge", str(path))

    def compact(self) -> None:
        self._call("compact")

    def scan(self, columns: list[str] | None) -> int:
        return int(self._call("scan", *(columns or ())))

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(10)

    def _call(self, *words: str) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        answer = json.loads(line) if line else {"error": "the process ended"}
        if "error" in answer:
            raise ChildError(answer["error"])
        return answer["result"]


def _ducklake_python() -> str:
    """The interpreter of an environment that has DuckLake; made once."""
    home = _ROOT / ".tools" / "ducklake"
    python = home / "bin" / "python"
    ready = home / "ready"
    if not ready.exists():
        try:
            subprocess.run([sys.executable, "-m", "venv", home], check=True)
            subprocess.run([python, "-m", "pip", "install", "-q", *DUCKLAKE], check=True)
        except subprocess.CalledProcessError as error:
            raise MissingError(f"DuckLake could not be installed: {error}") from None
        ready.touch()
    return str(python)


PEERS: Final[dict[str, Any]] = {
    "Lode": Lode,
    "Delta": Delta,
    "Iceberg": Iceberg,
    "Lance": Lance,
    "DuckLake": DuckLake,
}
