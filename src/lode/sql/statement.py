"""What DuckDB may run: one statement of the expected kind, over tables of the query, with known functions.

The generator writes nothing else. This reads what DuckDB's own parser makes of the text, so that a fault of
the generator is an error and not a statement of a client.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from lode.sql.errors import QueryError
from lode.sql.native import NATIVE

if TYPE_CHECKING:
    from collections.abc import Iterator

# The statements without rows that the engine writes: their heads, with the names that it makes.
_CREATE: Final = re.compile(r'CREATE TEMP (VIEW|TABLE) "((?:table|local)\$\d+)" AS (?=\S)')
_DECLARE: Final = re.compile(r'CREATE TEMP TABLE "(local\$\d+)" \((?=")')
_DROP: Final = re.compile(r'DROP TABLE "(local\$\d+)"')
_CHANGE: Final = re.compile(r'(INSERT INTO|UPDATE|DELETE FROM|MERGE INTO) "(local\$\d+)"(?=[ (]|$)')
_KINDS: Final = {
    "INSERT INTO": "INSERT",
    "UPDATE": "UPDATE",
    "DELETE FROM": "DELETE",
    "MERGE INTO": "MERGE_INTO",
}
# How the names of DuckDB's own tables begin, and those that only this package gives.
_RESERVED: Final = ("duckdb_", "pg_", "pragma_", "sqlite_", "rows$", "table$", "local$")
# References to tables that no query has. DuckDB reads some other statements as a query of these.
_REFUSED: Final = frozenset(["SHOW_REF", "TABLE_FUNCTION", "COLUMN_DATA", "DELIM_GET", "BOUND_TABLE_REF"])
_OWN: Final = ("bq_", "bqs_", "bqb_", "bqbs_", "bqm_", "bqms_")
_STRING: Final = re.compile(r'"((?:[^"\\]|\\.)*)"(\s*:)?')
_SERIALIZE: Final = (
    "SELECT json_serialize_sql(?::VARCHAR, skip_null := true, skip_empty := true, skip_default := true)"
)


class StatementError(QueryError):
    """A text that is not the statement that was meant. It is a fault of the translation."""

    def __init__(self, complaint: str) -> None:
        super().__init__(f"The query cannot be translated: {complaint}. Write it in another way.")


def check_query(connection: Any, written: str, tables: set[str]) -> Any:
    """Refuse all but one query over given tables; returns the statement.

    Args:
        connection: One of DuckDB for this alone: others may have a result that is read.
        written: The query.
        tables: The names of tables that it may read, besides those of its WITH.
    """
    import duckdb

    statement = _only(connection, written, duckdb.StatementType.SELECT)
    ((made,),) = connection.execute(_SERIALIZE, [written]).fetchall()
    declared: set[str] = set()
    read: list[tuple[str, str]] = []
    kinds: set[str] = set()
    called: set[str] = set()
    for key, values in _pairs(made):
        if key == "key":
            declared.update(value.lower() for value in values)
        elif key in ("table_name", "schema_name", "catalog_name"):
            read.append((key, "".join(values)))
        elif key == "function_name":
            called.update(values)
        elif key == "type":
            kinds.update(values)
    if refused := kinds & _REFUSED:
        raise StatementError(f"it reads {', '.join(sorted(refused))}")
    if unknown := [each for each in called - NATIVE if not each.startswith(_OWN)]:
        raise StatementError(f"it calls {min(unknown)[:100]}")
    for key, name in read:
        own = name in tables
        named = name.lower() in declared and not name.lower().startswith(_RESERVED)
        if key != "table_name" or not (own or named):
            raise StatementError(f"it names the table {name[:100]}")
    return statement


def check_command(connection: Any, written: str, tables: set[str]) -> str:
    """Refuse all but one statement that creates or drops a temporary table or view; returns its name."""
    import duckdb

    if (found := _CREATE.match(written)) is not None:
        check_query(connection, written[found.end() :], tables)
        _only(connection, written, duckdb.StatementType.CREATE)
        return found[2]
    if (found := _DECLARE.match(written)) is not None:
        _only(connection, written, duckdb.StatementType.CREATE)
        return found[1]
    found = _DROP.fullmatch(written)
    if found is None or found[1] not in tables:
        raise StatementError("it is no statement of a temporary table")
    _only(connection, written, duckdb.StatementType.DROP)
    return found[1]


def check_change(connection: Any, written: str, tables: set[str]) -> None:
    """Refuse all but one INSERT, UPDATE, DELETE or MERGE on a temporary table."""
    import duckdb

    found = _CHANGE.match(written)
    if found is None or found[2] not in tables:
        raise StatementError("it changes no temporary table")
    _only(connection, written, getattr(duckdb.StatementType, _KINDS[found[1]]))


def check_view(connection: Any, written: str) -> None:
    """Refuse all but one statement that creates a view. Its text is not of the query."""
    import duckdb

    _only(connection, written, duckdb.StatementType.CREATE)


def _only(connection: Any, written: str, kind: Any) -> Any:
    found = connection.extract_statements(written)
    if [each.type for each in found] != [kind]:
        raise StatementError("it is not one statement of its kind")
    return found[0]


def _pairs(made: str) -> Iterator[tuple[str, list[str]]]:
    """The keys of a JSON text with the texts behind each, up to the next key.

    It is not decoded: a nested query has more levels than a decoder takes.
    """
    key = ""
    values: list[str] = []
    for match in _STRING.finditer(made):
        if match[2]:
            yield key, values
            key, values = match[1], []
        else:
            values.append(_decoded(match[1]))
    yield key, values


def _decoded(value: str) -> str:
    import json

    return str(json.loads(f'"{value}"')) if "\\" in value else value
