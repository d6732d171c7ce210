"""Conditions on one column as expressions of pyarrow, true and false and unknown as SQL has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lode.ingest.read.literal import Between, value_of
from lode.lazy import pa

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow.compute as pc

    from lode.ingest.read.literal import Literal
    from lode.ingest.schema.columns import Column


def compared(
    column: Column, field: pc.Expression, sign: str, literal: Literal, *, negated: bool
) -> pc.Expression:
    """The column compared with a literal, or the opposite."""
    value = value_of(literal, column)
    if isinstance(value, Between):
        return _beside(field, sign, value, negated=negated)
    comparison: pc.Expression
    match sign:
        case "=":
            comparison = field == value
        case "<":
            comparison = field < value
        case "<=":
            comparison = field <= value
        case ">":
            comparison = field > value
        case ">=":
            comparison = field >= value
        case _:
            comparison = field != value
    return negated_of(comparison) if negated else comparison


def _beside(field: pc.Expression, sign: str, value: Between, *, negated: bool) -> pc.Expression:
    """A comparison with a number that the column cannot hold: it is at either side of those that it can."""
    below, above = sign in ("<", "<="), sign in (">", ">=")
    if value.below is None or not (below or above):
        holds = sign in ("!=", "<>") or (
            value.below is None and below == value.above_all and (below or above)
        )
        return _constant(field, holds != negated)
    beside: pc.Expression = field <= value.below if below != negated else field > value.below
    return beside


def _constant(field: pc.Expression, holds: bool) -> pc.Expression:
    """True or false of every value; of null neither is."""
    import pyarrow.compute as pc

    return valid(field) if holds else pc.scalar(False)


def among(
    column: Column, field: pc.Expression, literals: Sequence[Literal], *, negated: bool
) -> pc.Expression:
    """Whether the column is one of the literals, or the opposite, which of null neither is."""
    values = [value_of(literal, column) for literal in literals]
    plain = [value.as_py() for value in values if not isinstance(value, Between)]
    if 0.0 in plain and column.type == "FLOAT64":
        plain += [0.0, -0.0]  # equal, but not to a table of values
    if not plain:
        return _constant(field, negated)
    kind: Any = next(value.type for value in values if not isinstance(value, Between))
    found = field.isin(pa.array(plain, kind))
    return _pair(negated_of(found), valid(field), all_of=True) if negated else found


def valid(field: Any) -> pc.Expression:
    valid: pc.Expression = field.is_valid()
    return valid


def null(field: Any) -> pc.Expression:
    null: pc.Expression = field.is_null()
    return null


def negated_of(expression: Any) -> pc.Expression:
    turned: pc.Expression = ~expression
    return turned


def joined(parts: list[pc.Expression], *, all_of: bool) -> pc.Expression:
    """All or any of the parts, as a tree of little depth: expressions are walked recursively."""
    while len(parts) > 1:
        pairs = [parts[index : index + 2] for index in range(0, len(parts), 2)]
        parts = [pair[0] if len(pair) == 1 else _pair(*pair, all_of=all_of) for pair in pairs]
    return parts[0]


def _pair(left: Any, right: Any, *, all_of: bool) -> pc.Expression:
    both: pc.Expression = left & right if all_of else left | right
    return both
