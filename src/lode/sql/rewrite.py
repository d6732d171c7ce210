"""Changes of a query's tree before it is written for DuckDB: tables, parameters, functions, names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sqlglot import exp

from lode.sql.dialect import position
from lode.sql.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_MAX_CALLS: Final = 32
_MAX_NODES: Final = 50_000


class _Scope(NamedTuple):
    """The queries of a WITH that a part of a query can name: those with a smaller place than ``end``."""

    places: dict[str, int]
    end: int
    outer: _Scope | None


def sources(tree: exp.Expression) -> Iterator[exp.Table]:
    """The tables of a query that are no names of WITH and no arrays.

    A query of WITH can be named behind it and, with RECURSIVE, anywhere in its WITH. A name before it is a
    table: so DuckDB never looks for a name that this package has not resolved.
    """
    found: list[exp.Table] = []
    left: list[tuple[Any, _Scope | None]] = [(tree, None)]
    while left:
        node, scope = left.pop()
        is_named = isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier)
        if is_named and (node.args.get("db") or not _is_declared(node.name.lower(), scope)):
            found.append(node)
        clause = node.args.get("with_")
        inner = scope
        if clause is not None:
            count = len(clause.expressions)
            places: dict[str, int] = {}
            for place, each in enumerate(clause.expressions):
                places.setdefault(each.alias_or_name.lower(), place)
            inner = _Scope(places, count, scope)
            for place, each in enumerate(clause.expressions):
                seen = count if clause.args.get("recursive") else place
                left.append((each, _Scope(places, seen, scope)))
        left += [(each, inner) for each in node.iter_expressions() if each is not clause]
    yield from found


def _is_declared(name: str, scope: _Scope | None) -> bool:
    while scope is not None:
        if scope.places.get(name, scope.end) < scope.end:
            return True
        scope = scope.outer
    return False


# How the names of DuckDB's own tables begin that have no schema.
SYSTEM: Final = ("duckdb_", "pg_", "pragma_", "sqlite_")


def rename_queries(tree: exp.Expression) -> None:
    """Give queries of WITH with the name of a table of DuckDB another one. The others are unbound before."""
    named = [each for each in tree.find_all(exp.CTE) if each.alias.lower().startswith(SYSTEM)]
    if not named:
        return
    for table in [each for each in tree.find_all(exp.Table) if not each.args.get("db")]:
        if table.name.lower().startswith(SYSTEM):
            alias = table.args.get("alias") or exp.TableAlias()
            if not alias.name:
                alias.set("this", exp.to_identifier(table.name, quoted=True))
            table.set("alias", alias)
            table.set("this", exp.to_identifier(f"with${table.name}", quoted=True))
    for each in named:
        each.args["alias"].set("this", exp.to_identifier(f"with${each.alias}", quoted=True))


def name_columns(tree: exp.Expression) -> None:
    """Name the columns of the result as BigQuery does: f0_ and so on where the query gives no name."""
    select: Any = tree
    while isinstance(select, exp.SetOperation | exp.Subquery):
        select = select.this
    if isinstance(select, exp.Select) and select.args.get("kind") == "STRUCT":
        select.set("kind", None)  # a row of the result is a struct already
    if not isinstance(select, exp.Select) or select.args.get("kind"):
        return
    number = 0
    named = []
    for each in select.expressions:
        inner = each.unalias().unnest()
        if isinstance(each, exp.Alias) or each.is_star:
            named.append(each)
            continue
        if isinstance(inner, exp.Column | exp.Dot) and not isinstance(
            inner.args.get("expression"), exp.Anonymous
        ):
            name = inner.expression.name if isinstance(inner, exp.Dot) else inner.name
        else:
            name = f"f{number}_"
            number += 1
        named.append(exp.alias_(each, exp.to_identifier(name, quoted=True), copy=False))
    select.set("expressions", named)


def bind_parameters(
    tree: exp.Expression, named: dict[str, exp.Expression], positional: list[exp.Expression]
) -> None:
    """Replace parameters by their values."""
    for each in list(tree.find_all(exp.Parameter)):
        value = named.get(each.name.lower())
        if value is None:
            raise QueryError(f"Query parameter '{each.name}' not found{position(each)}")
        each.replace(value.copy())
    marks = [each for each in tree.dfs() if isinstance(each, exp.Placeholder)]
    marks.sort(key=lambda each: each.meta.get("start", 0))
    for number, mark in enumerate(marks):
        if number >= len(positional):
            raise QueryError(
                f"Query parameter number {number + 1} is not defined: the query has more question marks"
            )
        mark.replace(positional[number].copy())


def hide(table: exp.Table, names: Iterable[str]) -> None:
    """Leave columns of a table out of ``*`` and ``t.*`` of its query."""
    select = table.find_ancestor(exp.Select)
    for each in select.expressions if select is not None else ():
        star = each.this if isinstance(each, exp.Column) else each
        own = not isinstance(each, exp.Column) or each.table.lower() == table.alias_or_name.lower()
        if isinstance(star, exp.Star) and own:
            left_out = list(star.args.get("except_") or ())
            known = {column.name.lower() for column in left_out}
            left_out += [exp.to_identifier(name, quoted=True) for name in names if name.lower() not in known]
            star.set("except_", left_out)


def replace_table(table: exp.Table, name: str, shown: str) -> None:
    """Make a table of the tree another one, under the name that the query uses."""
    table.set("catalog", None)
    table.set("db", None)
    table.set("this", exp.to_identifier(name, quoted=True))
    table.set("alias", exp.TableAlias(this=exp.to_identifier(shown, quoted=True)))


class Functions:
    """Functions that were created with SQL. Their calls are replaced by their bodies.

    Args:
        own: Those that the query itself has created, by their names in lower case.
        stored: Finds others by the parts of their names.
    """

    def __init__(
        self, own: dict[str, exp.Create], stored: Callable[[tuple[str, ...]], exp.Create | None]
    ) -> None:
        self._own = own
        self._stored = stored
        self._nodes = 0

    def inlined(self, tree: exp.Expression, depth: int = 0) -> exp.Expression:
        """Replace the calls in a tree, which is inside of so many bodies."""
        if depth > _MAX_CALLS:
            raise QueryError("Functions call each other without an end.")
        # From the inside to the outside, so that each call is replaced once.
        for call in reversed(list(tree.find_all(exp.Anonymous))):
            outer = call.parent if isinstance(call.parent, exp.Dot) and call.arg_key == "expression" else call
            if outer is call:
                found = self._own.get(call.name.lower())
            else:
                parts = (*_dotted(outer.this), call.name)
                found = self._own.get(".".join(parts).lower()) or self._stored(parts)
            if found is not None:
                outer.replace(exp.Paren(this=self.inlined(self._body(found, call), depth + 1)))
        return tree

    def _body(self, function: exp.Create, call: exp.Anonymous) -> exp.Expression:
        parameters = function.this.expressions
        if len(parameters) != len(call.expressions):
            raise QueryError(
                f"No matching signature for function {call.name}: it has {len(parameters)} parameters, "
                f"{len(call.expressions)} arguments were given{position(call)}"
            )
        body: exp.Expression = function.expression.copy()
        values: dict[str, exp.Expression] = {}
        for parameter, argument in zip(parameters, call.expressions, strict=True):
            kind = parameter.args.get("kind")
            typed = (
                isinstance(kind, exp.DataType)
                # ANY TYPE is a VARIANT.
                and kind.this not in (exp.DType.USERDEFINED, exp.DType.VARIANT)
            )
            values[parameter.name.lower()] = (
                exp.Cast(this=argument.copy(), to=kind.copy()) if typed else exp.Paren(this=argument.copy())
            )
        holder = exp.Paren(this=body)
        columns = list(holder.find_all(exp.Column))
        sizes = {name: _size(value) for name, value in values.items()}
        self._nodes += _size(holder) + sum(sizes.get(each.parts[0].name.lower(), 0) for each in columns)
        if self._nodes > _MAX_NODES:
            raise QueryError(
                f"The query has more than {_MAX_NODES:,} expressions with the bodies of its functions: nest "
                "fewer calls."
            )
        for column in columns:
            first = column.parts[0].name.lower()
            if first in values and len(column.parts) == 1:
                column.replace(values[first].copy())
            elif first in values:
                made: exp.Expression = values[first].copy()
                for part in column.parts[1:]:
                    made = exp.Dot(this=made, expression=part.copy())
                column.replace(made)
        result = next(
            (
                each.this
                for each in (function.args.get("properties") or exp.Properties()).expressions
                if isinstance(each, exp.ReturnsProperty)
            ),
            None,
        )
        if isinstance(result, exp.DataType):
            return exp.Cast(this=holder, to=result.copy())
        return holder


def _size(tree: exp.Expression) -> int:
    return sum(1 for _ in tree.walk())


def _dotted(node: exp.Expression) -> list[str]:
    if isinstance(node, exp.Dot):
        return [*_dotted(node.this), node.expression.name]
    return node.name.split(".")
