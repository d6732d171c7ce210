"""Both ends of what a query in a process asks its server for: ``RemoteHost`` there, ``calls_of`` here.

A call has names, numbers and definitions as JSON, which the server decodes into their types. Functions stay
where they are: the other side gets a number, and calls back.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from lode.ingest.catalog.dataset import DatasetDefinition, DatasetName
from lode.ingest.catalog.partitioning import Partitioning
from lode.ingest.catalog.table import TableDefinition
from lode.ingest.names import TableName
from lode.ingest.types.columns import TableSchema
from lode.lazy import pa
from lode.sandbox.peer import Peer, Rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from lode.ingest.catalog.catalog import Catalog
    from lode.ingest.jobs.sql.host import Key, ServerHost
    from lode.ingest.jobs.sql.replacing import Statement
    from lode.sql.numbered import NumberedRows
    from lode.store.protocol import Store

# A function that takes and returns a definition.
_CHANGE: Final = object()
_NEW_TABLE: Final = {
    "name": TableName,
    "schema": TableSchema,
    "partitioning": Partitioning | None,
    "info": dict[str, Any] | None,
}
# The methods of the catalog that a query may call, with the types of their parameters in their order.
CATALOG: Final[dict[str, dict[str, Any]]] = {
    "location_of": {"name": list[str]},
    "table": {"name": TableName, "fresh": bool},
    "dataset": {"name": DatasetName, "fresh": bool},
    "list_tables": {"name": DatasetName, "after": str, "limit": int | None},
    "list_datasets": {"project": str, "after": str, "limit": int | None, "hidden": bool},
    "create_dataset": {"name": DatasetName, "location": str, "info": dict[str, Any] | None},
    "update_dataset": {"name": DatasetName, "change": _CHANGE},
    "delete_dataset": {"name": DatasetName, "delete_contents": bool},
    "create_table": _NEW_TABLE,
    "draft_table": {**_NEW_TABLE, "apart": bool},
    "draft_replacement": {"current": TableDefinition, **{k: v for k, v in _NEW_TABLE.items() if k != "name"}},
    "replace_table": {"current": TableDefinition, "wanted": TableDefinition},
    "rename_table": {"name": TableName, "wanted": TableName},
    "update_table": {"name": TableName, "change": _CHANGE, "replace_schema": bool},
    "delete_table": {"name": TableName},
}
_READS: Final = (
    *("location_of", "table", "dataset", "list_tables", "list_datasets"),
    *("draft_table", "draft_replacement"),
)
_STATEMENT: Final = ("condition", "charge", "begin", "rows")


# -- in the process -----------------------------------------------------------------------------------------


class RemoteHost:
    """The server of a query in a process. Implements ``Host``.

    Args:
        server: The server.
        store: The lake, for reading.
        location: The location of datasets that are created without one.
    """

    def __init__(self, server: Peer, store: Store, location: str) -> None:
        self._server = server
        self._numbers = count()
        self._functions: dict[int, Callable[..., Any]] = {}
        self.store = store
        # It has the methods of a catalog that the statements of a query use.
        self.catalog = cast("Catalog", RemoteCatalog(server, store, location, self._number))

    def _number(self, function: Callable[..., Any]) -> int:
        number = next(self._numbers)
        self._functions[number] = function
        return number

    def call_back(self, number: int, *arguments: Any) -> Any:
        """Run a function that the server was given by its number."""
        return self._functions[number](*arguments)

    def write(
        self,
        name: TableName,
        disposition: str,
        key: Key,
        decide: Callable[[TableDefinition | None], TableDefinition],
        rows: Callable[[], Rows],
    ) -> int | None:
        given = (name, disposition, key, self._number(decide), self._number(rows))
        found: int | None = self._server.call("write", *given)
        return found

    def is_written(self, key: Key, table: TableDefinition) -> bool:
        return bool(self._server.call("is_written", key, table))

    def change(self, table: TableDefinition, key: Key, statement: Statement) -> dict[str, int]:
        functions = [self._number(getattr(statement, name)) for name in _STATEMENT]
        found: dict[str, int] = self._server.call("change", table, key, statement.kind, functions)
        return found

    def truncate(self, table: TableDefinition, key: Key) -> int:
        return int(self._server.call("truncate", table, key))

    def drop_columns(self, table: TableDefinition, names: list[str]) -> None:
        self._server.call("drop_columns", table, names)

    def export(
        self, uri: str, settings: dict[str, Any], rows: Callable[[], Rows], *, overwrite: bool
    ) -> tuple[int, int]:
        files, count = self._server.call("export", uri, settings, self._number(rows), overwrite)
        return files, count

    def job_rows(self, project: str) -> pa.Table:
        schema, batches = self._server.rows("job_rows", project)
        return pa.Table.from_batches(list(batches), schema)

    def keep(self, rows: Rows) -> None:
        self._server.call("keep", self._number(lambda: rows))

    def note_alone(self) -> None:
        self._server.call("note_alone")


class RemoteCatalog:
    """The catalog of the server, as far as statements use it."""

    def __init__(
        self, server: Peer, store: Store, location: str, number: Callable[[Callable[..., Any]], int]
    ) -> None:
        self._server = server
        self._number = number
        self.store = store
        self.location = location

    def __getattr__(self, method: str) -> Callable[..., Any]:
        if method not in CATALOG:
            raise AttributeError(method)

        def call(*positional: Any, **named: Any) -> Any:
            given = dict(zip(CATALOG[method], positional, strict=False)) | named
            return self._server.call(
                "catalog",
                method,
                {name: self._number(each) if callable(each) else each for name, each in given.items()},
            )

        return call


# -- in the server ------------------------------------------------------------------------------------------


def calls_of(host: ServerHost, process: Peer) -> dict[str, Callable[..., Any]]:
    """The functions that a query in a process may call."""

    def definition(number: int) -> Callable[[Any], Any]:
        """A function of the process that returns a definition."""
        return lambda current: msgspec.convert(
            process.call("call_back", number, current),
            DatasetDefinition if isinstance(current, DatasetDefinition) else TableDefinition,
        )

    def rows(number: int) -> Callable[[], Rows]:
        return lambda: Rows(*process.rows("call_back", number))

    def catalog(method: str, given: dict[str, Any]) -> Any:
        parameters = CATALOG[method]
        made = {
            name: definition(each)
            if parameters[name] is _CHANGE
            else DatasetName(each[0], each[1])
            if method == "location_of"
            else msgspec.convert(each, parameters[name])
            for name, each in given.items()
        }
        if method not in _READS:
            host.done.begin()
        return getattr(host.catalog, method)(**made)

    def write(name: Any, disposition: str, key: Any, decide: int, found: int) -> int | None:
        own = msgspec.convert(name, TableName)
        return host.write(own, disposition, _key(key), definition(decide), rows(found))

    def is_written(key: Any, table: Any) -> bool:
        return host.is_written(_key(key), msgspec.convert(table, TableDefinition))

    def change(table: Any, key: Any, kind: str, functions: list[int]) -> dict[str, int]:
        statement = _Statement(process, kind, functions)
        return host.change(msgspec.convert(table, TableDefinition), _key(key), statement)

    def truncate(table: Any, key: Any) -> int:
        return host.truncate(msgspec.convert(table, TableDefinition), _key(key))

    def drop_columns(table: Any, names: Any) -> None:
        host.drop_columns(msgspec.convert(table, TableDefinition), msgspec.convert(names, list[str]))

    def export(uri: str, settings: dict[str, Any], found: int, overwrite: bool) -> tuple[int, int]:
        return host.export(uri, settings, rows(found), overwrite=overwrite)

    def job_rows(project: str) -> Rows:
        table = host.job_rows(project)
        return Rows(table.schema, table.to_batches())

    def keep(found: int) -> None:
        host.keep(rows(found)())

    own = (catalog, write, is_written, change, truncate, drop_columns, export, job_rows, keep)
    return {each.__name__: each for each in own} | {"note_alone": host.note_alone}


def _key(given: Any) -> Key:
    return msgspec.convert(given, tuple[str, str])


class _Statement:
    """A statement that is in a process. Implements ``Statement``."""

    def __init__(self, process: Peer, kind: str, functions: list[int]) -> None:
        self.kind = kind
        self._process = process
        self._functions = dict(zip(_STATEMENT, functions, strict=True))

    def condition(self, definition: TableDefinition) -> str | None:
        return msgspec.convert(self._call("condition", definition), str | None)

    def charge(self, size: int) -> None:
        self._call("charge", size)

    def begin(self, definition: TableDefinition, rows: NumberedRows) -> dict[int, str]:
        found = self._call("begin", definition, rows)
        return msgspec.convert(found, dict[int, str], strict=False)

    def rows(self) -> Rows:
        return Rows(*self._process.rows("call_back", self._functions["rows"]))

    def _call(self, name: str, *arguments: Any) -> Any:
        return self._process.call("call_back", self._functions[name], *arguments)
