"""Decimals and text as NUMERIC and BIGNUMERIC.

Arrow's own casts notice most numbers that are too large for their new scale, but not all: some wrap around.
So nothing is scaled up here that has not been seen to fit.
"""

from __future__ import annotations

import re
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any, Final

from lode.ingest.rows.problems import shown
from lode.ingest.schema.columns import arrow_type
from lode.lazy import pa

if TYPE_CHECKING:
    from collections.abc import Callable

    from lode.ingest.rows.problems import Place
    from lode.ingest.schema.columns import Column

_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?", re.ASCII)
_LONGEST: Final = 1000
_EXACT: Final = Context(prec=2 * _LONGEST)


def decimal_bounds(column: Column, kind: Any) -> Callable[[Any, Place], list[int]] | None:
    """What finds the decimals of a type that have too many digits before the point; None if none can."""
    target: Any = arrow_type(column)
    whole = target.precision - target.scale
    if kind.precision - kind.scale <= whole:
        return None
    most = Decimal(10) ** whole

    def find(array: Any, place: Place) -> list[int]:
        import pyarrow.compute as pc

        extremes: Any = pc.min_max(array)
        least, largest = extremes["min"].as_py(), extremes["max"].as_py()
        if least is None or (-most < least and largest < most):
            return []
        bad = [
            index
            for index, value in enumerate(array.to_pylist())
            if value is not None and value.copy_abs() >= most
        ]
        place.report(bad, lambda index: f"{shown(array, index)} does not fit {column.type}.")
        return bad

    return find


def plain_numbers(column: Column) -> Callable[[Any, Place], Any]:
    """What turns text into plain numbers that fit the column; what is none is reported and null."""
    target: Any = arrow_type(column)
    whole, fraction = target.precision - target.scale, target.scale
    plain = rf"^[+-]?[0-9]{{1,{whole}}}(\.[0-9]{{1,{fraction}}})?$"

    def rewrite(array: Any, place: Place) -> Any:
        import pyarrow.compute as pc

        matches: Any = pc.match_substring_regex(array, plain)
        if pc.all(matches, min_count=0).as_py():
            return array
        texts = array.to_pylist()
        numbers = [None if text is None else _plain(text, whole, fraction) for text in texts]
        bad = [index for index, text in enumerate(texts) if text is not None and numbers[index] is None]
        place.report(bad, lambda index: f"{shown(array, index)} does not fit {column.type} without loss.")
        return pa.array(numbers, pa.string())

    return rewrite


def _plain(text: str, whole: int, fraction: int) -> str | None:
    """The number without exponent and idle zeros; None if it is no number or has too many digits."""
    if len(text) > _LONGEST or _NUMBER.fullmatch(text) is None:
        return None
    value = _EXACT.normalize(Decimal(text))
    exponent = value.as_tuple().exponent
    if not value:
        return "0"
    if value.adjusted() >= whole or not isinstance(exponent, int) or exponent < -fraction:
        return None
    return f"{value:f}"
