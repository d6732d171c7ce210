"""UPDATE, DELETE, MERGE and TRUNCATE: a query computes the rows that change, ``replacing.py`` their files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp

from lode.ingest.catalog.partition_times import by_arrival
from lode.ingest.catalog.partitioning import PARTITION_ID
from lode.ingest.jobs.sql.filters import filter_of
from lode.ingest.jobs.sql.names import pseudo_columns
from lode.ingest.jobs.sql.outcome import Outcome
from lode.ingest.types.changes import CHANGE_SEQUENCE
from lode.lazy import pa
from lode.sandbox.peer import Rows
from lode.sql.dml import DELETE, INSERT, UPDATE, Target, changes_of
from lode.sql.engine import Source
from lode.sql.errors import QueryError
from lode.sql.numbered import ROW
from lode.sql.parser import parse_expression
from lode.sql.partition_filter import check_partition_filter

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lode.ingest.catalog.table import TableDefinition
    from lode.ingest.jobs.sql.context import Context
    from lode.sql.dml import Changes
    from lode.sql.numbered import NumberedRows


def table_of(tree: exp.Expression) -> exp.Table:
    """The table that a statement changes."""
    found: Any = tree.this
    if isinstance(found, exp.Schema):
        found = found.this
    if not isinstance(found, exp.Table) and tree.args.get("tables"):
        # DELETE without FROM.
        found = tree.args["tables"][0]
        tree.set("tables", None)
        tree.set("this", found)
    if not isinstance(found, exp.Table):
        raise QueryError(f"Syntax error: {type(tree).__name__.upper()} needs the name of a table")
    return found


def change(session: Context, tree: exp.Expression, dry: bool) -> Outcome:
    """UPDATE, DELETE and MERGE."""
    kind = type(tree).__name__.upper()
    table = table_of(tree)
    parts = tuple(part.name for part in table.parts)
    outcome = Outcome(kind, is_dml=True)
    if kind in ("UPDATE", "DELETE") and tree.args.get("where") is None:
        raise QueryError(f"{kind} must have a WHERE clause at [1:1]")
    if len(parts) == 1 and parts[0].lower() in session.sql.local:
        own = tree.copy()
        name = session.sql.local[parts[0].lower()][0]
        return _with_counts(outcome, {} if dry else session.sql.change(own, table_of(own), name))
    name_ = session.names.name(parts)
    definition = session.names.definition(name_)
    if "view" in definition.info:
        raise QueryError(f"{kind} statement is not allowed on view {name_.short}", reason="invalid")
    outcome.table = name_
    check_partition_filter([table], definition.filtered_columns, name_.short)
    statement = TableStatement(session, tree, table)
    if dry:
        source = session.names.source(definition)
        statement.check(definition)
        outcome.bytes = source.bytes
        return outcome
    if kind != "MERGE" and not definition.open(session.host.store).exists:
        statement.check(definition)
        return outcome
    try:
        counts = session.host.change(definition, session.key, statement)
    finally:
        session.names.pinned.clear()
    return _with_counts(outcome, counts, session.sql.bytes_processed)


def truncate(session: Context, tree: exp.TruncateTable, dry: bool) -> Outcome:
    """TRUNCATE TABLE. Nothing is read, and rows that are appended before its commit are removed, too."""
    name = session.names.name(tuple(part.name for part in tree.expressions[0].parts))
    definition = session.names.definition(name)
    if "view" in definition.info:
        raise QueryError(f"TRUNCATE TABLE is not allowed on view {name.short}", reason="invalid")
    outcome = Outcome("TRUNCATE_TABLE", table=name, is_dml=True)
    if not dry:
        outcome.deleted = session.host.truncate(definition, session.key)
    return outcome


def _with_counts(outcome: Outcome, counts: dict[str, int], size: int = 0) -> Outcome:
    outcome.inserted = counts.get(INSERT, 0)
    outcome.updated = counts.get(UPDATE, 0)
    outcome.deleted = counts.get(DELETE, 0)
    outcome.bytes = size
    return outcome


class TableStatement:
    """One UPDATE, DELETE or MERGE on a table of the catalog. Implements ``Statement``."""

    def __init__(self, session: Context, tree: exp.Expression, table: exp.Table) -> None:
        self._session = session
        self._tree = tree
        self._table = table
        self._planned: tuple[Changes, Source, Target, NumberedRows] | None = None

    @property
    def kind(self) -> str:
        return type(self._tree).__name__.lower()

    def check(self, definition: TableDefinition) -> None:
        """Refuse a statement that cannot run, without any rows."""
        hidden = _hidden(definition)
        schema = definition.schema.arrow
        whole = [*schema, *(pa.field(name, pa.string()) for name in hidden), pa.field(ROW, pa.int64())]
        empty = pa.schema(whole).empty_table()
        pseudo = {**pseudo_columns(definition), **_own_names(hidden)}
        if PARTITION_ID not in empty.schema.names:
            empty = empty.append_column(PARTITION_ID, pa.array([], pa.string()))
        target = self._target(definition, hidden)
        changes = self._changes(target)
        for _ in self._session.sql.changes(changes, Source(empty, schema, 0, pseudo), target.fields):
            pass

    def condition(self, definition: TableDefinition) -> str | None:
        where = self._tree.args.get("where")
        if not isinstance(self._tree, exp.Delete) or definition.primary_key or where is None:
            return None
        return filter_of(where.this, self._table.alias_or_name, definition.schema, definition.partitioning)

    def charge(self, size: int) -> None:
        self._session.sql.bytes_processed = 0
        self._session.sql.charge(size)

    def begin(self, definition: TableDefinition, rows: NumberedRows) -> dict[int, str]:
        self._session.sql.bytes_processed = 0
        self._session.names.pinned[definition.dataset_id] = rows.scan
        hidden = _hidden(definition)
        pseudo = {**pseudo_columns(definition), **_own_names(hidden)}
        source = Source(rows, definition.schema.arrow, rows.scan.size_bytes, pseudo)
        target = self._target(definition, hidden)
        changes = self._changes(target)
        self._planned = changes, source, target, rows
        return changes.actions

    def rows(self) -> Rows:
        assert self._planned is not None
        changes, source, target, rows = self._planned
        return Rows(pa.schema(target.fields), self._computed(changes, source, target, rows))

    def _computed(
        self, changes: Changes, source: Source, target: Target, rows: NumberedRows
    ) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._session.sql.changes(changes, source, target.fields)
        except QueryError as error:
            if isinstance(rows.failure, ValueError | None):
                raise
            raise rows.failure from error  # of the store, not of the query

    def _target(self, definition: TableDefinition, hidden: list[str]) -> Target:
        defaults = {each.name: parse_expression(each.default) for each in definition.schema if each.default}
        return Target(definition.schema.arrow, hidden, definition.primary_key, defaults)

    def _changes(self, target: Target) -> Changes:
        tree = self._tree.copy()
        return changes_of(tree, table_of(tree), target, lambda query: self._session.sql.schema(query).names)


def _hidden(definition: TableDefinition) -> list[str]:
    """Columns of the rows that a statement does not see and keeps."""
    arrived = [PARTITION_ID] if by_arrival(definition.partitioning) is not None else []
    return [*arrived, *([CHANGE_SEQUENCE] if definition.primary_key else [])]


def _own_names(hidden: Iterable[str]) -> dict[str, str]:
    return {name: f'"{name}"' for name in (*hidden, ROW)}
