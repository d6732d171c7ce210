"""Runs the statements of one query: what each does to rows and tables, and what it answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp

from lode.ingest.catalog.partitioning import PARTITION_ID, TimePartitioning, partition_ids
from lode.ingest.jobs.sql import tables as ddl
from lode.ingest.jobs.sql.context import Context, Outcome
from lode.ingest.jobs.sql.export import export
from lode.ingest.jobs.sql.names import as_query_error
from lode.ingest.jobs.sql.writing import again, write
from lode.ingest.status import Code, Refused
from lode.sql.engine import Source, parse
from lode.sql.errors import QueryError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lode.ingest.catalog.table import TableDefinition
    from lode.ingest.types.columns import Column
    from lode.lazy import pa


class Session(Context):
    """Runs the statements of one query."""

    def run(self, tree: exp.Expression, *, dry: bool = False) -> Outcome:
        """Run one statement. A dry run only checks it."""
        self.number += 1
        self.names.read.clear()
        self.sql.bytes_processed = 0
        try:
            return self._run(tree, dry)
        except Refused as refused:
            if refused.code is not Code.NOT_FOUND or refused.reason:
                raise
            raise as_query_error(refused) from None

    def _run(self, tree: exp.Expression, dry: bool) -> Outcome:
        match tree:
            case exp.Query():
                return self._select(tree, dry)
            case exp.Insert():
                return self._insert(tree, dry)
            case exp.Update() | exp.Delete() | exp.Merge():
                return self._change(tree, dry)
            case exp.Create():
                return ddl.create(self, tree, dry)
            case exp.Drop():
                return ddl.drop(self, tree, dry)
            case exp.Alter():
                return ddl.alter(self, tree, dry)
            case exp.TruncateTable():
                return self._truncate(tree, dry)
            case exp.Export():
                return export(self, tree, dry)
            case exp.Command():
                return ddl.command(self, tree, dry)
        raise UnsupportedError(_construct(tree))

    # -- queries -------------------------------------------------------------------------------

    def _select(self, tree: exp.Expression, dry: bool) -> Outcome:
        if dry:
            schema = self.sql.schema(tree)
            return Outcome("SELECT", schema, bytes=self.sql.bytes_processed)
        result = self.sql.run(tree)
        return Outcome("SELECT", result.schema, result.batches, bytes=result.bytes_processed)

    # -- rows ----------------------------------------------------------------------------------

    def _insert(self, tree: exp.Insert, dry: bool) -> Outcome:
        target = tree.this
        listed: list[str] | None = None
        if isinstance(target, exp.Schema):
            listed = [each.name for each in target.expressions]
            target = target.this
        parts = tuple(part.name for part in target.parts)
        outcome = Outcome("INSERT", is_dml=True)
        if len(parts) == 1 and parts[0].lower() in self.sql.local:
            if not dry:
                outcome.inserted = self.sql.change(
                    tree.copy(), _table_of(tree), self.sql.local[parts[0].lower()][0]
                ).get("INSERT", 0)
            return outcome
        definition = self.names.definition(self.names.name(parts))
        if "view" in definition.info:
            raise QueryError(
                f"INSERT statement is not allowed on view {definition.name.short}", reason="invalid"
            )
        outcome.table = definition.name
        columns = list(definition.schema)
        if listed is not None:
            by_name = {each.name.lower(): each for each in columns}
            for name in listed:
                if name.lower() not in by_name:
                    raise QueryError(f"Column {name} is not present in table {'.'.join(definition.name)}")
            columns = [by_name[name.lower()] for name in listed]
        defaults = {each.name: each.default for each in definition.schema if each.default}
        source = _with_defaults(tree.expression, columns)
        fields = [definition.schema.arrow.field(each.name) for each in columns]
        if dry:
            self.sql.schema(source)
            outcome.bytes = self.sql.bytes_processed
            outcome.schema = definition.schema.arrow
            return outcome
        rest = [each for each in definition.schema if each not in columns and each.name in defaults]
        if rest:
            source = exp.select(
                "*",
                *[exp.alias_(parse(f"SELECT {each.default}")[0].expressions[0], each.name) for each in rest],
            ).from_(
                exp.Subquery(this=source, alias=exp.TableAlias(this=exp.to_identifier("q$", quoted=True)))
            )
            fields += [definition.schema.arrow.field(each.name) for each in rest]
        counted = _Counted(self.sql.converted(source, fields))
        write(self.tables, definition, counted, key=self.key)
        outcome.inserted = counted.rows
        outcome.bytes = self.sql.bytes_processed
        return outcome

    def _change(self, tree: exp.Expression, dry: bool) -> Outcome:
        """UPDATE, DELETE and MERGE: computed on the newest snapshot, and again if another one comes first."""
        kind = type(tree).__name__.upper()
        table = _table_of(tree)
        parts = tuple(part.name for part in table.parts)
        outcome = Outcome(kind, is_dml=True)
        if kind in ("UPDATE", "DELETE") and tree.args.get("where") is None:
            raise QueryError(f"{kind} must have a WHERE clause at [1:1]")
        if len(parts) == 1 and parts[0].lower() in self.sql.local:
            counts = {} if dry else self._changed(tree, self.sql.local[parts[0].lower()][0])
            return _counted(outcome, counts)
        name = self.names.name(parts)
        definition = self.names.definition(name)
        if "view" in definition.info:
            raise QueryError(f"{kind} statement is not allowed on view {name.short}", reason="invalid")
        outcome.table = name
        if dry:
            source = self.names.source(definition)
            self._changed(tree, self.sql.target(_without_rows(source)))
            outcome.bytes = source.bytes
            return outcome

        def attempt() -> Outcome:
            self.names.read.clear()
            self.sql.bytes_processed = 0
            definition = self.names.definition(name)
            source = self.names.source(definition)
            base = self.names.read[definition.dataset_id]
            keeps = (
                isinstance(definition.partitioning, TimePartitioning) and not definition.partitioning.column
            )
            hidden = f'"{PARTITION_ID}"' if keeps else ""
            target = self.sql.target(source, hidden=hidden)
            counts = self._changed(tree, target)
            if sum(counts.values()):
                schema = definition.arrow if keeps else definition.schema.arrow
                rows = (
                    _arrived(self.sql.rows(target, schema), definition)
                    if keeps
                    else self.sql.rows(target, schema)
                )
                write(self.tables, definition, rows, key=self.key, base=base, replace=True)
            return _counted(outcome, counts)

        found: Outcome = again(attempt, name.short)
        found.bytes = self.sql.bytes_processed
        return found

    def _changed(self, tree: exp.Expression, name: str) -> dict[str, int]:
        own = tree.copy()
        return self.sql.change(own, _table_of(own), name)

    def _truncate(self, tree: exp.TruncateTable, dry: bool) -> Outcome:
        name = self.names.name(tuple(part.name for part in tree.expressions[0].parts))
        definition = self.names.definition(name)
        outcome = Outcome("TRUNCATE_TABLE", table=name, is_dml=True)
        if not dry:
            dataset = definition.open(self.tables.store)
            head = next(dataset.history(), None)
            outcome.deleted = 0 if head is None else dataset.plan(as_of=head).row_count
            write(self.tables, definition, (), key=self.key, replace=True)
        return outcome


class _Counted:
    """Batches, and how many rows they had."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self.rows = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            self.rows += batch.num_rows
            yield batch


def _table_of(tree: exp.Expression) -> exp.Table:
    found: Any = tree.this
    if isinstance(found, exp.Schema):
        found = found.this
    if not isinstance(found, exp.Table) and tree.args.get("tables"):
        # DELETE without FROM.
        found = tree.args["tables"][0]
        tree.set("tables", None)
        tree.set("this", found)
    assert isinstance(found, exp.Table)
    return found


def _counted(outcome: Outcome, counts: dict[str, int]) -> Outcome:
    outcome.inserted = counts.get("INSERT", 0)
    outcome.updated = counts.get("UPDATE", 0)
    outcome.deleted = counts.get("DELETE", 0)
    return outcome


def _without_rows(source: Source) -> Source:
    return Source(source.rows.schema.empty_table(), source.schema)


def _arrived(batches: Iterator[pa.RecordBatch], definition: TableDefinition) -> Iterator[pa.RecordBatch]:
    """Rows without a partition arrive now."""
    assert definition.partitioning is not None
    for batch in batches:
        index = batch.schema.get_field_index(PARTITION_ID)
        now = partition_ids(definition.partitioning, batch)
        filled = batch.column(index).fill_null(now[0] if len(now) else "")
        yield batch.set_column(index, batch.schema.field(index), filled)


def _with_defaults(source: exp.Expression, columns: list[Column]) -> exp.Expression:
    """The rows of INSERT as a query, with DEFAULT replaced, and names for the members of structs."""
    if not isinstance(source, exp.Values):
        return source
    source = source.copy()
    defaults = [each.default or "NULL" for each in columns]
    for row in source.expressions:
        values = (
            row.expressions
            if isinstance(row, exp.Tuple)
            else [row.this if isinstance(row, exp.Paren) else row]
        )
        for column, value in zip(columns, list(values), strict=False):
            _named(value, column)
    for row in source.expressions:
        for number, each in enumerate(list(row.expressions) if isinstance(row, exp.Tuple) else []):
            if (
                isinstance(each, exp.Var | exp.Column)
                and each.name.upper() == "DEFAULT"
                and number < len(defaults)
            ):
                each.replace(parse(f"SELECT {defaults[number]}")[0].expressions[0])
    rows = []
    for row in source.expressions:
        values = (
            row.expressions
            if isinstance(row, exp.Tuple)
            else [row.this if isinstance(row, exp.Paren) else row]
        )
        made = exp.Select(
            expressions=[exp.alias_(each.copy(), f"c{number}") for number, each in enumerate(values)]
        )
        rows.append(made)
    whole: exp.Expression = rows[0]
    for each in rows[1:]:
        whole = exp.Union(this=whole, expression=each, distinct=False)
    return whole


def _named(value: exp.Expression, column: Column) -> None:
    """Give the members of a struct without names those of its column."""
    if isinstance(value, exp.Array):
        for each in list(value.expressions):
            _named(each, column)
    elif isinstance(value, exp.Struct | exp.Tuple) and column.type == "STRUCT":
        members = []
        for field_, member in zip(column.fields, value.expressions, strict=False):
            inner = member.expression if isinstance(member, exp.PropertyEQ) else member
            _named(inner, field_)
            inner = member.expression if isinstance(member, exp.PropertyEQ) else member
            members.append(
                exp.PropertyEQ(this=exp.to_identifier(field_.name, quoted=True), expression=inner.copy())
            )
        value.replace(exp.Struct(expressions=members))


def _construct(tree: exp.Expression) -> str:
    return tree.sql("bigquery").split("(")[0][:60].strip().upper() if not isinstance(tree, exp.Set) else "SET"
