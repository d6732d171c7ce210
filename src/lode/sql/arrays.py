"""Arrays in FROM, which are written as subqueries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp

from lode.lazy import pt
from lode.sql.settled import is_simple
from lode.sql.types import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lode.lazy import pa


def expand_arrays(tree: exp.Expression, schemas: dict[str, pa.Schema]) -> None:
    """Write arrays in FROM as subqueries.

    An array of structs has its members as columns, any other one column with the name of its alias.

    Args:
        tree: The query.
        schemas: The columns of its tables, by the names that it uses for them.
    """
    for table in list(tree.find_all(exp.Table)):
        if is_array(table):
            _implicit(table)
    for unnest in list(tree.find_all(exp.Unnest)):
        if isinstance(unnest.parent, exp.From | exp.Join | exp.Lateral | exp.Subquery):
            is_struct = _is_struct_array(unnest.expressions[0], schemas, tree)
            unnest.replace(_unnested(unnest, is_struct=is_struct))


def _aliases_before(table: exp.Table) -> set[str]:
    found: set[str] = set()
    at: Any = table.find_ancestor(exp.Select)
    while at is not None:
        for each in (at.args.get("from_") or at.args.get("from"), *(at.args.get("joins") or ())):
            source = each.this if each is not None else None
            if source is not None and source is not table:
                found.add(source.alias_or_name.lower())
        at = at.parent.find_ancestor(exp.Select) if at.parent else None
    return found


def _implicit(table: exp.Table) -> None:
    """``FROM t, t.items``: the array of each row."""
    first, *rest = [part.copy() for part in table.parts]
    value: exp.Expression = exp.Column(this=rest[0], table=first)
    for part in rest[1:]:
        value = exp.Dot(this=value, expression=part)
    alias = table.args.get("alias")
    name = alias.name if alias is not None and alias.name else rest[-1].name
    unnest = exp.Unnest(expressions=[value], alias=exp.TableAlias(columns=[exp.to_identifier(name)]))
    parent: Any = table.parent
    if (joined := table.args.get("joins")) is not None:
        unnest.set("joins", joined)
    table.replace(unnest)
    if isinstance(parent, exp.Join) and not any(parent.args.get(key) for key in ("on", "kind", "side")):
        parent.set("kind", "CROSS")


def _unnested(unnest: exp.Unnest, *, is_struct: bool) -> exp.Expression:
    alias = unnest.args.get("alias")
    columns = [each.name for each in alias.args.get("columns") or ()] if alias is not None else []
    name = columns[0] if columns else (alias.name if alias is not None and alias.name else "")
    offset = unnest.args.get("offset")
    counter = (offset.name if isinstance(offset, exp.Expression) else "offset") if offset else None
    value = unnest.expressions[0]
    own = name or "unnamed$"
    made = exp.Subquery(
        this=exp.select(exp.column("unnest$")),
        alias=exp.TableAlias(this=exp.to_identifier(own, quoted=True)),
    )
    made.meta["unnest"] = (own, counter, is_struct)
    made.args["array$"] = value
    value.parent = made
    if unnest.args.get("joins"):
        made.set("joins", unnest.args["joins"])
    return made


def unnest_sql(made: exp.Subquery, array: str) -> str:
    """The subquery of an array in FROM."""
    name, counter, struct = made.meta["unnest"]
    shown = quoted(name)
    if counter is None:
        items = f"unnest({array}, max_depth := 2)" if struct else f"unnest({array}) AS {shown}"
        return f"(SELECT {items}) AS {shown}"
    number = quoted(counter)
    if not struct and not is_simple(array):
        # An element with its number: the array is written once.
        pair = f'struct_pack({shown} := "e$", {number} := "i$" - 1)'
        numbered = f'list_transform({array}, lambda "e$", "i$": {pair})'
        return f"(SELECT unnest({numbered}, max_depth := 2)) AS {shown}"
    value = array if is_simple(array) else quoted("array$")
    source = "" if is_simple(array) else f" FROM (SELECT {array} AS {value})"
    items = f"unnest({value}, max_depth := 2)" if struct else f"unnest({value}) AS {shown}"
    return f"(SELECT {items}, generate_subscripts({value}, 1) - 1 AS {number}{source}) AS {shown}"


def is_array(table: exp.Table) -> bool:
    """Whether a table of the tree is an array of another one, as in ``FROM t, t.items``."""
    return (
        bool(table.args.get("db"))
        and isinstance(table.this, exp.Identifier)
        and table.parts[0].name.lower() in _aliases_before(table)
    )


def _is_struct_array(value: exp.Expression, schemas: dict[str, pa.Schema], tree: exp.Expression) -> bool:
    """Whether the elements of an array are structs, as far as the tree and the tables show."""
    unwrapped: Any = value.unnest() if isinstance(value, exp.Paren) else value
    value = unwrapped
    if isinstance(value, exp.Array):
        first = value.expressions[0] if value.expressions else None
        if isinstance(first, exp.Select):
            return first.args.get("kind") == "STRUCT"
        return isinstance(first, exp.Struct | exp.Tuple) or (
            isinstance(first, exp.Cast) and first.to.this == exp.DType.STRUCT
        )
    if isinstance(value, exp.Cast):
        kind = value.to
        return (
            kind.this == exp.DType.ARRAY
            and bool(kind.expressions)
            and kind.expressions[0].this == exp.DType.STRUCT
        )
    if isinstance(value, exp.ArrayAgg):
        inner = value.this
        while isinstance(inner, exp.IgnoreNulls | exp.RespectNulls | exp.Order | exp.Limit | exp.Distinct):
            inner = inner.this if not isinstance(inner, exp.Distinct) else inner.expressions[0]
        return isinstance(inner, exp.Struct)
    if isinstance(value, exp.Anonymous) and value.expressions:
        if value.name.upper() in ("ARRAY_CONCAT", "ARRAY_REVERSE", "ARRAY_SLICE"):
            return _is_struct_array(value.expressions[0], schemas, tree)
        return False
    if isinstance(value, exp.Column | exp.Dot):
        path = [part.name.lower() for part in value.parts]
        for schema in [schemas[path[0]]] if path[0] in schemas else list(schemas.values()):
            kind = _kind_at(schema, path[1:] if path[0] in schemas else path)
            if kind is not None and pt.is_list(kind):
                return bool(pt.is_struct(kind.value_type))
        for alias in tree.find_all(exp.Alias):
            if alias.alias.lower() == path[-1] and not isinstance(alias.this, exp.Column):
                return _is_struct_array(alias.this, schemas, tree)
    return False


def _kind_at(schema: Any, path: Sequence[str]) -> Any:
    kind: Any = None
    fields: Any = schema
    for name in path:
        found = next((each for each in fields if each.name.lower() == name), None)
        if found is None:
            return None
        kind = found.type
        fields = kind if pt.is_struct(kind) else ()
    return kind
