"""UPDATE, DELETE and MERGE as a query of the rows that they change.

The query has a row for each change: what to do, the number of the row of the table (``row$``), the new value
of every column, the hidden columns of the row, and the key that it had.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from sqlglot import exp

from lode.sql.dialect import position
from lode.sql.errors import QueryError, UnsupportedError
from lode.sql.numbered import ROW

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Parse = Callable[[str], exp.Expression]

INSERT, UPDATE, DELETE = "INSERT", "UPDATE", "DELETE"
ACTION: Final = "action$"
TARGET: Final = "target$"
_SOURCE: Final = "source$"
_VOLATILE: Final = frozenset(["RAND", "GENERATE_UUID"])


@dataclass(frozen=True, slots=True)
class Target:
    """The table that a statement changes.

    Attributes:
        schema: Its columns.
        hidden: Columns that only its rows have, which a changed row keeps.
        keys: Its primary key.
        defaults: The expressions of columns that have a default.
    """

    schema: pa.Schema
    hidden: Sequence[str] = ()
    keys: Sequence[str] = ()
    defaults: dict[str, exp.Expression] = field(default_factory=dict)

    @property
    def fields(self) -> list[pa.Field[Any]]:
        """The columns of the query."""
        return [
            pa.field(ACTION, pa.int64()),
            pa.field(ROW, pa.int64()),
            *self.schema,
            *(pa.field(name, pa.string()) for name in self.hidden),
            *(self.schema.field(name).with_name(f"old${name}") for name in self.keys),
        ]


@dataclass(frozen=True, slots=True)
class Changes:
    """The query of a statement, and what each number in its first column does to a row."""

    query: exp.Select
    actions: dict[int, str]


def changes_of(
    tree: exp.Expression, table: exp.Table, target: Target, columns_of: Callable[[exp.Expression], list[str]]
) -> Changes:
    """The query of the rows that a statement changes. It reads the table as ``target$``.

    Args:
        tree: The statement.
        table: The table in it that is changed.
        target: The same table.
        columns_of: The names of the columns of a query.
    """
    alias = table.args.get("alias")
    shown = alias.name if alias is not None and alias.name else table.name
    made = _Changes(target, shown)
    own = exp.Table(
        this=exp.to_identifier(TARGET, quoted=True),
        alias=exp.TableAlias(this=exp.to_identifier(shown, quoted=True)),
    )
    match tree:
        case exp.Delete():
            query = made.select(exp.Literal.number(1), made.kept()).from_(own)
            return Changes(query.where(tree.args["where"].this.copy()), {1: DELETE})
        case exp.Update():
            values = made.assigned(tree.expressions)
            query = made.select(exp.Literal.number(1), values).from_(own)
            source = tree.args.get("from_") or tree.args.get("from")
            if source is not None:
                joined = source.this.copy()
                if joined.args.get("joins"):
                    # In parentheses: its own joins come first.
                    joined = exp.Subquery(this=joined)
                query = query.join(joined, join_type="cross")
            return Changes(query.where(tree.args["where"].this.copy()), {1: UPDATE})
        case exp.Merge():
            return _merge(tree, made, own, columns_of)
    raise AssertionError(f"{type(tree).__name__} changes no rows")


class _Changes:
    """The columns of the query of one statement."""

    def __init__(self, target: Target, shown: str) -> None:
        self.target = target
        self.shown = shown
        self.names = target.schema.names

    def old(self, name: str) -> exp.Expression:
        """The value that a column has before."""
        return exp.column(exp.to_identifier(name, quoted=True), exp.to_identifier(self.shown, quoted=True))

    def kept(self) -> dict[str, exp.Expression]:
        return {name: self.old(name) for name in self.names}

    def default(self, name: str) -> exp.Expression:
        found = self.target.defaults.get(name)
        return exp.Null() if found is None else found.copy()

    def select(self, action: exp.Expression, values: dict[str, exp.Expression]) -> exp.Select:
        """A query with these values."""
        hidden = [*self.target.hidden, *self.target.keys]
        return exp.select(
            exp.alias_(action, ACTION, quoted=True),
            exp.alias_(self.old(ROW), ROW, quoted=True),
            *(exp.alias_(values[name], f"c{number}") for number, name in enumerate(self.names)),
            *(exp.alias_(self.old(name), f"h{number}") for number, name in enumerate(hidden)),
        )

    def assigned(self, assignments: Sequence[exp.Expression]) -> dict[str, exp.Expression]:
        """The values of a row after SET."""
        values = self.kept()
        changed: dict[str, Any] = {}
        for each in assignments:
            if not isinstance(each, exp.EQ):
                raise QueryError(f"Syntax error: SET needs a value for {each.sql('bigquery')[:60]}")
            name, *path = self._path(each.this)
            value = each.expression
            if _is_default(value):
                value = self.default(name) if not path else exp.Null()
            at = changed
            for part in [name, *path][:-1]:
                inner = at.setdefault(part, {})
                if not isinstance(inner, dict):
                    raise _assigned_twice(each)
                at = inner
            last = [name, *path][-1]
            if last in at:
                raise _assigned_twice(each)
            at[last] = value.copy()
        for name, value in changed.items():
            values[name] = self._replaced(self.old(name), self.target.schema.field(name).type, value)
        return values

    def _path(self, target: Any) -> list[str]:
        """The column that SET names, and the members inside of it."""
        parts = [part.name for part in target.parts]
        known = {name.lower(): name for name in self.names}
        if parts[0].lower() not in known and parts[0].lower() == self.shown.lower():
            parts = parts[1:]
        if not parts or parts[0].lower() not in known:
            raise QueryError(f"Unrecognized name: {target.parts[0].name}{position(target.parts[0])}")
        return [known[parts[0].lower()], *parts[1:]]

    def _replaced(self, old: exp.Expression, kind: pa.DataType, value: Any) -> exp.Expression:
        """A struct with other values for some members."""
        if not isinstance(value, dict):
            return value  # type: ignore[no-any-return]
        if not pa.types.is_struct(kind):
            raise QueryError(f"Cannot access field {next(iter(value))} on a value that is no STRUCT")
        wanted = {name.lower(): inner for name, inner in value.items()}
        members = []
        for member in kind:
            before = exp.Dot(this=old.copy(), expression=exp.to_identifier(member.name, quoted=True))
            inner = wanted.pop(member.name.lower(), before)
            members.append(
                exp.PropertyEQ(
                    this=exp.to_identifier(member.name, quoted=True),
                    expression=self._replaced(before, member.type, inner),
                )
            )
        if wanted:
            raise QueryError(f"Field name {next(iter(wanted))} does not exist in the STRUCT")
        return exp.Struct(expressions=members)

    def inserted(self, names: Sequence[str], given: Sequence[exp.Expression]) -> dict[str, exp.Expression]:
        """The values of a new row."""
        if len(names) != len(given):
            raise QueryError(f"Inserted row has wrong column count; Has {len(given)}, expected {len(names)}")
        known = {name.lower(): name for name in self.names}
        values = {name: self.default(name) for name in self.names}
        for name, value in zip(names, given, strict=True):
            if name.lower() not in known:
                raise QueryError(f"Column {name} is not present in the table")
            if not _is_default(value):
                values[known[name.lower()]] = value.copy()
        return values


def _merge(
    tree: exp.Merge, made: _Changes, own: exp.Table, columns_of: Callable[[exp.Expression], list[str]]
) -> Changes:
    using = tree.args["using"]
    source = _Source(exp.to_identifier(using.alias_or_name or "source", quoted=True), using, columns_of)
    row, has_source = made.old(ROW), exp.column(exp.to_identifier(_SOURCE, quoted=True), source.shown)
    chosen = exp.Case()
    actions: dict[int, str] = {}
    values: dict[str, exp.Case] = {name: exp.Case() for name in made.names}
    inserts = alone = False
    for number, when in enumerate(tree.args["whens"].expressions, 1):
        is_matched, is_alone = bool(when.args.get("matched")), bool(when.args.get("source"))
        alone, inserts = alone or is_alone, inserts or not (is_matched or is_alone)
        condition: exp.Expression
        # A clause for rows of one side sees the columns of that side alone.
        if is_matched:
            condition = exp.And(this=_is_set(row), expression=_is_set(has_source))
        elif is_alone:
            condition = _is_missing(has_source)
            _qualify(when, made.shown, made.names)
        else:
            condition = _is_missing(row)
            _qualify(when, source.shown.name, source.columns)
        if (more := when.args.get("condition")) is not None:
            if any(each.name.upper() in _VOLATILE for each in more.find_all(exp.Anonymous)):
                raise UnsupportedError("MERGE with a random condition")
            condition = exp.And(this=condition, expression=exp.paren(more.copy()))
        actions[number], new = _then(when.args["then"], made, source)
        chosen = chosen.when(condition, exp.Literal.number(number))
        for name, value in new.items():
            values[name] = values[name].when(condition.copy(), value)
    joined = exp.select("*", exp.alias_(exp.true(), _SOURCE, quoted=True)).from_(using.copy())
    query = made.select(chosen, dict(values)).from_(own)
    query = query.join(
        exp.Subquery(this=joined, alias=exp.TableAlias(this=source.shown)),
        on=tree.args["on"].copy(),
        join_type="full" if inserts and alone else "right" if inserts else "left" if alone else "inner",
    )
    return Changes(query.where(_is_set(exp.paren(chosen.copy()))), actions)


class _Source:
    """The rows of USING."""

    def __init__(
        self, shown: exp.Identifier, using: exp.Expression, columns_of: Callable[[exp.Expression], list[str]]
    ) -> None:
        self.shown = shown
        self._using = using
        self._columns_of = columns_of
        self._columns: list[str] | None = None

    @property
    def columns(self) -> list[str]:
        if self._columns is None:
            self._columns = self._columns_of(exp.select("*").from_(self._using.copy()))
        return self._columns

    def values(self) -> list[exp.Expression]:
        """All of its columns."""
        return [exp.column(exp.to_identifier(name, quoted=True), self.shown.copy()) for name in self.columns]


def _qualify(when: exp.Expression, shown: str, names: Sequence[str]) -> None:
    """Write the table before the columns of one side of MERGE, which the other side may have, too."""
    known = {name.lower() for name in names}
    parts = [when.args.get("condition"), when.args["then"]]
    if isinstance(parts[1], exp.Insert):
        # Without the list of columns, which are those of the table.
        parts[1] = parts[1].args.get("expression") or parts[1].this
    assigned = {id(each.this) for each in getattr(parts[1], "expressions", ()) if isinstance(each, exp.EQ)}
    for column in [each for part in parts if part is not None for each in part.find_all(exp.Column)]:
        first = column.parts[0].name.lower()
        if first not in known or first == shown.lower() or id(column) in assigned or len(column.parts) > 3:
            continue
        select = column.find_ancestor(exp.Select)
        if select is not None or _is_default(column):
            continue
        place = ("table", "db", "catalog")[len(column.parts) - 1]
        column.set(place, exp.to_identifier(shown, quoted=True))


def _then(then: Any, made: _Changes, source: _Source) -> tuple[str, dict[str, exp.Expression]]:
    """What a clause of MERGE does, and the values that it gives to columns."""
    if isinstance(then, exp.Update):
        return UPDATE, made.assigned(then.expressions)
    if not isinstance(then, exp.Insert):
        return DELETE, made.kept()
    listed, given = then.this, then.args.get("expression")
    if isinstance(listed, exp.Var) and listed.name.upper() == "ROW":
        return INSERT, made.inserted(made.names, source.values())
    inner = _items(listed)
    if not given and len(inner) == 1 and isinstance(inner[0], exp.Anonymous):
        # INSERT VALUES (…), which the parser reads as a call.
        return INSERT, made.inserted(made.names, inner[0].expressions)
    if not given:
        raise QueryError("Syntax error: INSERT of MERGE needs VALUES or ROW")
    names = [each.name for each in inner] or made.names
    return INSERT, made.inserted(names, _items(given))


def _items(node: Any) -> list[exp.Expression]:
    if isinstance(node, exp.Tuple | exp.Schema):
        return list(node.expressions)
    if node is None or node is False:
        return []
    return [node.this if isinstance(node, exp.Paren) else node]


def _is_default(value: exp.Expression) -> bool:
    return (
        isinstance(value, exp.Var | exp.Column)
        and value.name.upper() == "DEFAULT"
        and not value.args.get("table")
    )


def _is_missing(value: exp.Expression) -> exp.Expression:
    return exp.Is(this=value.copy(), expression=exp.Null())


def _is_set(value: exp.Expression) -> exp.Expression:
    return exp.Not(this=_is_missing(value))


def _assigned_twice(each: exp.Expression) -> QueryError:
    return QueryError(f"Update item {each.this.sql('bigquery')} assigned more than once{position(each.this)}")
