"""From the Python values of one column to an Arrow array.

A column whose values already have the right Python type, as nearly all have, goes to pyarrow as it is. Only a
column that needs coercion, or that pyarrow refuses, is visited value by value.
"""

from __future__ import annotations

from datetime import date, datetime, time
from decimal import Decimal
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from lode.codec.coerce import CoercionError, field_coercion
from lode.errors import InvalidOptionError
from lode.lazy import pa, pt

if TYPE_CHECKING:
    from collections.abc import Sequence

_NONE: Final = type(None)
_FLOAT32_MAX: Final = 3.4028234663852886e38

# pyarrow reads more shapes than RFC 3339 has. What does not look like this goes the slow way, which decides.
_CLOCK: Final = r"[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?"
_YEAR: Final = "(000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})"  # a Python date begins with year 1
_MOMENT: Final = rf"^{_YEAR}-[0-9]{{2}}-[0-9]{{2}}[T ]{_CLOCK}"
_ZONED: Final = _MOMENT + r"(Z|[+-][0-9]{2}:[0-9]{2})$"
_NAIVE: Final = _MOMENT + "$"
_DATE: Final = rf"^{_YEAR}-[0-9]{{2}}-[0-9]{{2}}$"


def to_array(
    values: Sequence[Any], field: pa.Field[Any], *, first_row: int, from_json: bool = False
) -> pa.Array[Any]:
    """Return one column's values as an Arrow array, or name the row that does not fit."""
    array = _direct(values, field)
    if array is None:
        array = _parsed(values, field)
    return _coerced(values, field, first_row, from_json) if array is None else array


def _direct(values: Sequence[Any], field: pa.Field[Any]) -> pa.Array[Any] | None:
    """Hand the column to pyarrow in one go, if its types leave no room for interpretation."""
    if not _is_exact(values, field.type, field.nullable):
        return None
    try:
        return _single(pa.array(values, field.type))
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None


def _parsed(values: Sequence[Any], field: pa.Field[Any]) -> pa.Array[Any] | None:
    """Return a column of text as times or dates, or None if the column is anything else."""
    kind: Any = field.type
    if pt.is_timestamp(kind) and kind.unit in ("us", "ns"):
        pattern = _NAIVE if kind.tz is None else _ZONED
    elif pt.is_date32(kind):
        pattern = _DATE
    else:
        return None
    kinds = set(map(type, values))
    if not kinds <= ({str, type(None)} if field.nullable else {str}) or str not in kinds:
        return None
    import pyarrow.compute as pc

    try:
        text: Any = pa.array(values, pa.string())
        shaped: Any = pc.all(pc.match_substring_regex(text, pattern))
        return text.cast(kind) if shaped.as_py() else None
    except (pa.ArrowException, ValueError):
        return None


def _coerced(values: Sequence[Any], field: pa.Field[Any], first_row: int, from_json: bool) -> pa.Array[Any]:
    convert = field_coercion(field, from_json=from_json)
    ready = []
    for row, value in enumerate(values, first_row):
        try:
            ready.append(convert(value))
        except CoercionError as error:
            raise error.at(row, field.name) from None
    return _single(pa.array(ready, field.type))


def _single(array: Any) -> pa.Array[Any]:
    if isinstance(array, pa.ChunkedArray):
        raise InvalidOptionError("a chunk of records holds over 2 GiB of text: write it in smaller chunks")
    return array  # type: ignore[no-any-return]


def _is_exact(values: Sequence[Any], kind: Any, nullable: bool) -> bool:
    """Return whether pyarrow, for these values and this type, either keeps every value or raises."""
    kinds = set(map(type, values))
    if _NONE in kinds:
        if not nullable:
            return False
        kinds.discard(_NONE)
    if not kinds:
        return True
    for test, wanted in _PLAIN:
        if getattr(pt, test)(kind):
            return kinds <= wanted
    if pt.is_float32(kind):
        return kinds == {float} and _fits_float32(values)
    if pt.is_timestamp(kind):
        return kinds == {datetime} and kind.unit in ("us", "ns") and _zones(values) == {kind.tz is None}
    if pt.is_time(kind):
        return kinds == {time} and kind.unit in ("us", "ns") and _zones(values) == {True}
    present = values if len(kinds) == 1 and None not in values else [v for v in values if v is not None]
    if pt.is_struct(kind):
        return kinds == {dict} and _is_exact_struct(present, kind)
    if pt.is_map(kind):
        return (
            kinds == {dict}
            and _is_exact(list(chain.from_iterable(present)), kind.key_type, False)
            and _is_exact(
                list(chain.from_iterable(map(dict.values, present))), kind.item_type, kind.item_field.nullable
            )
        )
    if pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind):
        return kinds <= {list, tuple} and _is_exact(
            list(chain.from_iterable(present)), kind.value_type, kind.value_field.nullable
        )
    return False


_PLAIN: Final[tuple[tuple[str, frozenset[type]], ...]] = (
    ("is_integer", frozenset({int})),
    ("is_float64", frozenset({float, int})),
    ("is_boolean", frozenset({bool})),
    ("is_string", frozenset({str})),
    ("is_large_string", frozenset({str})),
    ("is_string_view", frozenset({str})),
    ("is_binary", frozenset({bytes})),
    ("is_large_binary", frozenset({bytes})),
    ("is_binary_view", frozenset({bytes})),
    ("is_fixed_size_binary", frozenset({bytes})),
    ("is_date", frozenset({date})),
    ("is_decimal", frozenset({Decimal, int})),
)


def _is_exact_struct(present: Sequence[Any], kind: Any) -> bool:
    members = list(kind)
    if not set(chain.from_iterable(present)) <= {member.name for member in members}:
        return False
    return all(
        _is_exact([value.get(member.name) for value in present], member.type, member.nullable)
        for member in members
    )


def _zones(values: Sequence[Any]) -> set[bool]:
    return {value.tzinfo is None for value in values if value is not None}


def _fits_float32(values: Sequence[Any]) -> bool:
    import pyarrow.compute as pc

    # Beyond the largest float32 pyarrow silently writes infinity. NaN is passed over by min_max.
    bounds: Any = pc.min_max(pa.array(values, pa.float64())).as_py()
    low, high = bounds["min"], bounds["max"]
    return low is None or (low >= -_FLOAT32_MAX and high <= _FLOAT32_MAX)
