"""Filters of Spark as Arrow expressions that are true of no fewer rows.

They only ever leave out what cannot match: Spark applies its own filters to what is left, so a filter that
has no exact counterpart here is simply not used.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from pyspark.sql import datasource as spark

if TYPE_CHECKING:
    from collections.abc import Iterable

_COMPARISONS: Any = {
    spark.EqualTo: lambda field, value: field == value,
    spark.GreaterThan: lambda field, value: field > value,
    spark.GreaterThanOrEqual: lambda field, value: field >= value,
    spark.LessThan: lambda field, value: field < value,
    spark.LessThanOrEqual: lambda field, value: field <= value,
}


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on some columns, picklable; all conditions of a read hold at once."""

    columns: frozenset[str]
    expression: pc.Expression


def conditions(filters: Iterable[spark.Filter], schema: pa.Schema) -> list[Condition]:
    """The filters that can be expressed, for columns of the types in ``schema``."""
    found = [_condition(each, schema) for each in filters]
    return [each for each in found if each is not None]


def together(conditions: Iterable[Condition], columns: Iterable[str]) -> pc.Expression | None:
    """All conditions on these columns as one expression; None if there are none."""
    names = set(columns)
    chosen = [each.expression for each in conditions if each.columns <= names]
    return reduce(and_, chosen) if chosen else None


def _condition(wanted: spark.Filter, schema: pa.Schema) -> Condition | None:
    inner = wanted.child if isinstance(wanted, spark.Not) else wanted
    path: tuple[str, ...] = getattr(inner, "attribute", ())
    if len(path) != 1 or path[0] not in schema.names:
        return None
    name = path[0]
    try:
        expression = _expression(inner, pc.field(name), schema.field(name).type)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        return None
    if expression is None:
        return None
    if isinstance(wanted, spark.Not):
        if isinstance(inner, spark.StringStartsWith | spark.EqualNullSafe):
            return None  # these are wider than the filter, so their opposite would be narrower
        expression = ~expression
    return Condition(frozenset({name}), expression)


def _expression(wanted: spark.Filter, field: Any, kind: Any) -> Any:
    match wanted:
        case spark.IsNull():
            return field.is_null()
        case spark.IsNotNull():
            return field.is_valid()
    # Spark finds NaN equal to itself and greater than all numbers, Arrow does not.
    if pt.is_floating(kind) or pt.is_nested(kind):
        return None
    match wanted:
        case spark.In(value=values):
            known = [_scalar(value, kind) for value in values if value is not None]
            return reduce(or_, [field == value for value in known]) if known else None
        case spark.EqualNullSafe(value=value):
            return field.is_null() if value is None else field == _scalar(value, kind)
        case spark.StringStartsWith(value=prefix) if prefix:
            upper = _after(prefix)
            low = field >= _scalar(prefix, kind)
            return low if upper is None else low & (field < _scalar(upper, kind))
    compare = _COMPARISONS.get(type(wanted))
    value = getattr(wanted, "value", None)
    return None if compare is None or value is None else compare(field, _scalar(value, kind))


def _scalar(value: Any, kind: Any) -> Any:
    return pc.scalar(pa.scalar(value, kind))


def _after(prefix: str) -> str | None:
    """The least text greater than all that begin with ``prefix``; None where it takes a careful look."""
    last = ord(prefix[-1])
    return None if last in (0xD7FF, 0x10FFFF) else prefix[:-1] + chr(last + 1)
