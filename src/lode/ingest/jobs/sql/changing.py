"""UPDATE, DELETE, MERGE and TRUNCATE: a query computes the rows that change, only their files are rewritten.

The query runs on one snapshot. A commit of another writer that replaces or removes rows is a conflict, and
the statement is computed again. Rows that are appended meanwhile are kept as they are, as if they came later.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from lode.change.base import Workers
from lode.change.delete import remove_rows
from lode.change.matching import match_rows
from lode.change.result import Change
from lode.errors import InvalidOptionError, SchemaViolationError
from lode.format.manifest import Removes
from lode.ingest.catalog.partition_times import by_arrival
from lode.ingest.catalog.partitioning import PARTITION_ID
from lode.ingest.catalog.table import stored_as
from lode.ingest.core.changes import key_texts
from lode.ingest.jobs.sql.context import Outcome
from lode.ingest.jobs.sql.filters import filter_of
from lode.ingest.jobs.sql.fit import fitted
from lode.ingest.jobs.sql.names import pseudo_columns
from lode.ingest.status import Code, Refused
from lode.ingest.types.changes import CHANGE_SEQUENCE
from lode.lazy import pa
from lode.read.scan import verify_files_of
from lode.sql.dml import DELETE, INSERT, UPDATE, Target, changes_of
from lode.sql.engine import Source
from lode.sql.errors import QueryError
from lode.sql.numbered import ROW, numbered_rows
from lode.sql.parser import parse_expression
from lode.sql.partition_filter import check_partition_filter
from lode.write.removal import Removal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import lode
    from lode.change.base import Base, Part
    from lode.ingest.catalog.table import TableDefinition
    from lode.ingest.core.changes import DeletedKeys
    from lode.ingest.jobs.sql.context import Context
    from lode.read.scan import Scan
    from lode.sql.dml import Changes
    from lode.sql.numbered import NumberedFile
    from lode.write.draft import CommitSummary
    from lode.write.stage import Staged, Stager


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
    statement = _Statement(session, tree, table)
    if dry:
        source = session.names.source(definition)
        statement.check(definition)
        outcome.bytes = source.bytes
        return outcome
    if kind != "MERGE" and not definition.open(session.tables.store).exists:
        statement.check(definition)
        return outcome
    return _with_counts(outcome, statement.run(definition), session.sql.bytes_processed)


def truncate(session: Context, tree: exp.TruncateTable, dry: bool) -> Outcome:
    """TRUNCATE TABLE. Nothing is read, and rows that are appended before its commit are removed, too."""
    name = session.names.name(tuple(part.name for part in tree.expressions[0].parts))
    definition = session.names.definition(name)
    if "view" in definition.info:
        raise QueryError(f"TRUNCATE TABLE is not allowed on view {name.short}", reason="invalid")
    outcome = Outcome("TRUNCATE_TABLE", table=name, is_dml=True)
    dataset = definition.open(session.tables.store)
    if dry or not dataset.exists:
        return outcome
    with dataset.transaction(
        {"job": {"id": session.key[1], "type": "query"}},
        idempotency_key=session.key,
        on_conflict="append",
        replaces=[""],
    ) as transaction:
        snapshot = transaction.replayed
        if snapshot is None:
            snapshot = session.tables.writer(definition).publish(dataset, transaction)
    outcome.deleted = Change.of(snapshot).removed.rows
    return outcome


def _with_counts(outcome: Outcome, counts: dict[str, int], size: int = 0) -> Outcome:
    outcome.inserted = counts.get(INSERT, 0)
    outcome.updated = counts.get(UPDATE, 0)
    outcome.deleted = counts.get(DELETE, 0)
    outcome.bytes = size
    return outcome


class _Failed(Exception):  # noqa: N818, it carries an error through the writer of a table
    """The query of a statement failed."""

    def __init__(self, error: QueryError) -> None:
        super().__init__(str(error))
        self.error = error


class _StatementRemoval(Removal):
    """What a statement removes. Appends are no conflict: their rows came after the snapshot that it read."""

    def overlap(self, later: Iterable[CommitSummary]) -> str | None:
        return Removal.overlap(self, [commit for commit in later if commit.operation != "append"])


class _Statement:
    """One UPDATE, DELETE or MERGE on a table of the catalog."""

    def __init__(self, session: Context, tree: exp.Expression, table: exp.Table) -> None:
        self._session = session
        self._tree = tree
        self._table = table
        self._counts: dict[str, int] = {}

    def run(self, definition: TableDefinition) -> dict[str, int]:
        """Change the table; returns the numbers of rows by what happened to them."""
        session, kind = self._session, type(self._tree).__name__.lower()
        writer = session.tables.writer(definition)
        metadata = {"job": {"id": session.key[1], "type": "query"}}
        try:
            snapshot = writer.change(self._stage, lambda: _StatementRemoval(kind), metadata, key=session.key)
        except _Failed as failed:
            raise failed.error from None
        except Refused as refused:
            if refused.code is not Code.ABORTED:
                raise
            raise Refused(
                Code.ABORTED,
                f"Could not serialize access to table {definition.name.short} due to concurrent update",
                reason="invalidQuery",
            ) from refused
        finally:
            session.names.pinned.clear()
        if snapshot is not None:
            # Of an earlier attempt of the same job, perhaps.
            self._counts = dict(snapshot.metadata["job"]["rows"])
        return self._counts

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
        changes = self._changes(definition, target)
        for _ in self._session.sql.changes(changes, Source(empty, schema, 0, pseudo), target.fields):
            pass

    def _stage(
        self, definition: TableDefinition, base: Base, transaction: lode.Transaction, removal: Removal
    ) -> bool:
        self._counts = dict.fromkeys((INSERT, UPDATE, DELETE), 0)
        try:
            found = self._delete(definition, base, transaction, removal) or self._compute(
                definition, base, transaction, removal
            )
        except QueryError as error:
            raise _Failed(error) from error
        transaction.metadata["job"]["rows"] = self._counts
        return found and sum(self._counts.values()) > 0

    def _delete(
        self, definition: TableDefinition, base: Base, transaction: lode.Transaction, removal: Removal
    ) -> bool:
        """DELETE by a filter of the library, which does not read files of which all rows match.

        Returns False if the condition is not one.
        """
        where = self._tree.args.get("where")
        if not isinstance(self._tree, exp.Delete) or definition.primary_key or where is None:
            return False
        condition = filter_of(
            where.this, self._table.alias_or_name, definition.schema, definition.partitioning
        )
        if condition is None:
            return False
        workers = Workers()
        try:
            matching = match_rows(base, condition, workers)
        except InvalidOptionError:
            return False  # the query says what is wrong with it
        self._session.sql.bytes_processed = 0
        self._session.sql.charge(
            sum(file.size_bytes for file in base.scan.files if file.path in matching.paths)
        )
        if matching.paths:
            kept = remove_rows(removal, base, matching, transaction.stager, workers, None)
            transaction.add(*kept)
            self._counts[DELETE] = removal.removed.rows - sum(each.row_count for each in kept)
        return True

    def _compute(
        self, definition: TableDefinition, base: Base, transaction: lode.Transaction, removal: Removal
    ) -> bool:
        session = self._session
        session.sql.bytes_processed = 0
        session.names.pinned[definition.dataset_id] = base.scan
        rows = numbered_rows(base.scan)
        hidden = _hidden(definition)
        pseudo = {**pseudo_columns(definition), **_own_names(hidden)}
        source = Source(rows, definition.schema.arrow, base.scan.size_bytes, pseudo)
        target = self._target(definition, hidden)
        changes = self._changes(definition, target)
        writer = session.tables.writer(definition)
        split = _Split(
            definition,
            changes,
            bytearray(rows.total),
            self._counts,
            writer.deleted_keys if definition.primary_key else None,
            getattr(transaction.stager.components.codec, "schema", None),
        )
        new = split.new_rows(session.sql.changes(changes, source, target.fields))
        try:
            first = next(new, None)
            if first is not None:
                transaction.add(transaction.stager.write_records(chain([first], new)))
        except SchemaViolationError as error:
            raise QueryError(
                f"Table {definition.name.short} cannot be written: {error}", reason="invalid"
            ) from error
        except QueryError as error:
            if isinstance(rows.failure, ValueError | None):
                raise
            raise rows.failure from error  # of the store, not of the query
        touched = {
            file.path: file for file in rows.numbered if split.changed.find(1, file.start, _end(file)) >= 0
        }
        some = [
            path
            for path, file in touched.items()
            if split.changed.count(1, file.start, _end(file)) < file.count
        ]
        rewrite = _Rewrite(base.reader, transaction.stager, touched, split.changed)
        kept = Workers().each(rewrite, base.parts(some), None) if some else []
        if first is not None:
            # Of these the query has read every row. It may have written some of their values again.
            Workers().each(_verify(base.reader), base.parts(touched.keys() - set(some)), None)
        transaction.add(*kept)
        removal.files = frozenset(touched)
        removal.removed = base.state.removed(Removes(files=tuple(touched)))
        removal.carried = tuple(file.path for part in kept for file in part.files)
        return True

    def _target(self, definition: TableDefinition, hidden: list[str]) -> Target:
        defaults = {each.name: parse_expression(each.default) for each in definition.schema if each.default}
        return Target(definition.schema.arrow, hidden, definition.primary_key, defaults)

    def _changes(self, definition: TableDefinition, target: Target) -> Changes:
        tree = self._tree.copy()
        return changes_of(tree, table_of(tree), target, lambda query: self._session.sql.schema(query).names)


def _end(file: NumberedFile) -> int:
    return file.start + file.count


def _hidden(definition: TableDefinition) -> list[str]:
    """Columns of the rows that a statement does not see and keeps."""
    arrived = [PARTITION_ID] if by_arrival(definition.partitioning) is not None else []
    return [*arrived, *([CHANGE_SEQUENCE] if definition.primary_key else [])]


def _own_names(hidden: Iterable[str]) -> dict[str, str]:
    return {name: f'"{name}"' for name in (*hidden, ROW)}


class _Split:
    """Divides the rows of the query of a statement into those that are written and those that are removed.

    Args:
        definition: The table.
        changes: The statement.
        changed: One byte for each row of the table, which becomes 1 if the row is replaced or removed.
        counts: The numbers of rows by what happens to them.
        deleted: Where the numbers of deleted rows are kept, if the table takes changes.
        stored: The columns of the files.
    """

    def __init__(
        self,
        definition: TableDefinition,
        changes: Changes,
        changed: bytearray,
        counts: dict[str, int],
        deleted: DeletedKeys | None,
        stored: pa.Schema | None,
    ) -> None:
        self.changed = changed
        self._definition = definition
        self._changes = changes
        self._counts = counts
        self._deleted = deleted
        self._stored = stored

    def new_rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows that are written, in the columns of the files."""
        import pyarrow.compute as pc

        compute: Any = pc
        for batch in batches:
            clauses = batch.column(0)
            found: list[Any] = clauses.unique().to_pylist()
            for number in found:
                action = self._changes.actions[number]
                rows = batch.filter(compute.equal(clauses, number))
                self._counts[action] += rows.num_rows
                if action != INSERT:
                    self._mark(rows.column(1))
                if self._deleted is not None and action != INSERT:
                    rows = self._forget(rows, action)
                if action != DELETE:
                    yield self._prepared(rows)

    def _mark(self, numbers: Any) -> None:
        """Note the rows that are replaced or removed. Each may be only once."""
        values = numbers.to_pylist()
        first, last = values[0], values[-1]
        if last - first + 1 == len(values) and values == list(range(first, last + 1)):
            # A run of rows, as they come if all of a file are changed.
            twice = self.changed.find(1, first, last + 1) >= 0
            self.changed[first : last + 1] = b"\1" * len(values)
        else:
            twice = False
            for value in values:
                twice = twice or bool(self.changed[value])
                self.changed[value] = 1
        if twice:
            raise QueryError("UPDATE/MERGE must match at most one source row for each target row")

    def _forget(self, rows: pa.RecordBatch, action: str) -> pa.RecordBatch:
        """Keep the numbers of changes that rows had, for keys that the table has no more.

        Without them an older change that arrives later would bring the row back. A row with another key than
        before has no number, as one that was inserted.
        """
        import pyarrow.compute as pc

        compute: Any = pc
        keys = self._definition.primary_key
        before = pa.table({name: rows.column(f"old${name}") for name in keys})
        texts = key_texts(before, keys)
        place = rows.schema.get_field_index(CHANGE_SEQUENCE)
        numbers: Any = rows.column(place)
        gone: Any = texts.is_valid()
        if action == UPDATE:
            now = key_texts(pa.table({name: rows.column(name) for name in keys}), keys)
            gone = compute.and_(gone, compute.fill_null(compute.not_equal(texts, now), True))
            kept = compute.if_else(gone, pa.scalar(None, pa.string()), numbers)
            rows = rows.set_column(place, rows.schema.field(place), kept)
        recorded = compute.and_(gone, numbers.is_valid())
        if compute.any(recorded, min_count=0).as_py():
            assert self._deleted is not None
            self._deleted.add(texts.filter(recorded), numbers.filter(recorded))
        return rows

    def _prepared(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        definition = self._definition
        names = rows.schema.names
        sequences = rows.column(CHANGE_SEQUENCE) if CHANGE_SEQUENCE in names else None
        own = definition.prepare(fitted(rows, definition.schema), sequences=sequences)
        if PARTITION_ID in names:
            # A changed row stays in its partition, a new one arrives now.
            place = own.schema.get_field_index(PARTITION_ID)
            import pyarrow.compute as pc

            compute: Any = pc
            arrived = compute.coalesce(rows.column(PARTITION_ID), own.column(place))
            own = own.set_column(place, own.schema.field(place), arrived)
        return stored_as(own, self._stored)


def _verify(reader: Scan) -> Callable[[Part], None]:
    return lambda part: verify_files_of(reader.of(part))


@dataclass(frozen=True, slots=True)
class _Rewrite:
    """Stages the rows of a file that stay as they are."""

    reader: Scan
    stager: Stager
    files: dict[str, NumberedFile]
    changed: bytearray

    def __call__(self, part: Part) -> Staged:
        return self.stager.rewrite(self._kept(part))

    def _kept(self, part: Part) -> Iterator[pa.RecordBatch]:
        import pyarrow.compute as pc

        at = self.files[part[0].files[0].path].start
        whole = pa.py_buffer(self.changed)
        for batch in self.reader.of(part).rows():
            own = whole.slice(at, batch.num_rows)
            at += batch.num_rows
            marks: Any = pa.Array.from_buffers(pa.uint8(), batch.num_rows, [None, own])
            yield batch.filter(pc.equal(marks, pa.scalar(0, pa.uint8())))
