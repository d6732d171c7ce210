"""Runs the statements of one query: what each does to rows and tables, and what it answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sqlglot import exp

from lode.ingest.jobs.sql import changing
from lode.ingest.jobs.sql import tables as ddl
from lode.ingest.jobs.sql.context import Context
from lode.ingest.jobs.sql.export import export
from lode.ingest.jobs.sql.names import as_query_error
from lode.ingest.jobs.sql.outcome import Outcome
from lode.ingest.status import Code, Refused
from lode.lazy import pa
from lode.sandbox.peer import Rows
from lode.sql.dialect import is_float
from lode.sql.errors import QueryError, UnsupportedError
from lode.sql.parser import parse_expression

if TYPE_CHECKING:
    from lode.ingest.types.columns import Column


# Refusals that a script can handle.
_OF_QUERY: Final = (Code.NOT_FOUND, Code.INVALID_ARGUMENT, Code.ALREADY_EXISTS)


class Session(Context):
    """Runs the statements of one query."""

    def run(self, tree: exp.Expression, *, dry: bool = False) -> Outcome:
        """Run one statement. A dry run only checks it."""
        self.check(tree)
        self.number += 1
        self.sql.bytes_processed = 0
        try:
            return self._run(tree, dry)
        except Refused as refused:
            if refused.reason or refused.code not in _OF_QUERY:
                raise
            if refused.code is Code.NOT_FOUND:
                raise as_query_error(refused) from None
            reason = "duplicate" if refused.code is Code.ALREADY_EXISTS else "invalid"
            raise QueryError(refused.message, reason=reason, location=refused.location) from None

    def check(self, tree: exp.Expression) -> None:
        """Refuse a statement of a kind that is not supported."""
        match tree:
            case exp.Create() | exp.Drop() | exp.Alter() | exp.Command():
                ddl.check(self, tree)
            case exp.Query() | exp.TruncateTable() | exp.Export():
                pass
            case exp.Insert() | exp.Update() | exp.Delete() | exp.Merge():
                pass
            case _:
                raise UnsupportedError(_construct(tree))

    def _run(self, tree: exp.Expression, dry: bool) -> Outcome:
        match tree:
            case exp.Query():
                return self._select(tree, dry)
            case exp.Insert():
                return self._insert(tree, dry)
            case exp.Update() | exp.Delete() | exp.Merge():
                return changing.change(self, tree, dry)
            case exp.Create():
                return ddl.create(self, tree, dry)
            case exp.Drop():
                return ddl.drop(self, tree, dry)
            case exp.Alter():
                return ddl.alter(self, tree, dry)
            case exp.TruncateTable():
                return changing.truncate(self, tree, dry)
            case exp.Export():
                return export(self, tree, dry)
        return ddl.command(self, tree, dry)

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
        if tree.expression is None:
            raise QueryError("Syntax error: INSERT needs VALUES or a query")
        listed: list[str] | None = None
        if isinstance(target, exp.Schema):
            listed = [each.name for each in target.expressions]
            target = target.this
        parts = tuple(part.name for part in target.parts)
        outcome = Outcome("INSERT", is_dml=True)
        if len(parts) == 1 and parts[0].lower() in self.sql.local:
            if not dry:
                outcome.inserted = self.sql.change(
                    tree.copy(), changing.table_of(tree), self.sql.local[parts[0].lower()][0]
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
            if len({name.lower() for name in listed}) < len(listed):
                raise QueryError("INSERT has a column in its list more than once")
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
                *[exp.alias_(parse_expression(each.default), each.name) for each in rest],
            ).from_(
                exp.Subquery(this=source, alias=exp.TableAlias(this=exp.to_identifier("q$", quoted=True)))
            )
            fields += [definition.schema.arrow.field(each.name) for each in rest]
        written = self.host.write(
            definition.name,
            "WRITE_APPEND",
            self.key,
            lambda _: definition,
            lambda: Rows(pa.schema(fields), self.sql.converted(source, fields)),
        )
        outcome.inserted = written or 0
        outcome.bytes = self.sql.bytes_processed
        return outcome


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
            value.replace(_fitted(value.copy(), column))
    for row in source.expressions:
        for number, each in enumerate(list(row.expressions) if isinstance(row, exp.Tuple) else []):
            if (
                isinstance(each, exp.Var | exp.Column)
                and each.name.upper() == "DEFAULT"
                and number < len(defaults)
            ):
                each.replace(parse_expression(defaults[number]))
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


def _fitted(value: exp.Expression, column: Column) -> exp.Expression:
    """A value for a column: with names for the members of structs, and with all digits of a decimal."""
    if isinstance(value, exp.Array):
        value.set("expressions", [_fitted(each, column) for each in value.expressions])
    elif isinstance(value, exp.Struct | exp.Tuple) and column.type == "STRUCT":
        inner = [each.expression if isinstance(each, exp.PropertyEQ) else each for each in value.expressions]
        members = [
            exp.PropertyEQ(
                this=exp.to_identifier(field.name, quoted=True), expression=_fitted(each.copy(), field)
            )
            for field, each in zip(column.fields, inner, strict=False)
        ]
        return exp.Struct(expressions=members)
    if is_float(value) and column.type in ("NUMERIC", "BIGNUMERIC"):
        return exp.cast(value, column.type, dialect="bigquery")
    return value


def _construct(tree: exp.Expression) -> str:
    return tree.sql("bigquery").split("(")[0][:60].strip().upper() if not isinstance(tree, exp.Set) else "SET"
