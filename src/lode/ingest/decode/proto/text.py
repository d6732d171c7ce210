"""Arrays of DATE, TIME, DATETIME and TIMESTAMP as text: first all values at once by Arrow, then one by one.

Arrow reads the canonical forms. Reading one by one takes all that BigQuery knows, and tells what is wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lode.ingest.types.row_errors import each
from lode.lazy import pa
from lode.times import parse_date, parse_datetime, parse_time, parse_timestamp

if TYPE_CHECKING:
    from collections.abc import Callable

    from lode.ingest.types.row_errors import Place


def dates_of_text(array: Any, place: Place) -> Any:
    days = _cast(array, pa.date32())
    return days if days is not None else _each(array, place, parse_date, pa.int32()).view(pa.date32())


def times_of_text(array: Any, place: Place) -> Any:
    import pyarrow.compute as pc

    compute: Any = pc
    # Arrow reads no times of day, only those of a date.
    moments = _cast(compute.binary_join_element_wise("1970-01-01", array, "T"), pa.timestamp("us"))
    micros = moments.view(pa.int64()) if moments is not None else _each(array, place, parse_time, pa.int64())
    return micros.view(pa.time64("us"))


def datetimes_of_text(array: Any, place: Place) -> Any:
    kind = pa.timestamp("us")
    moments = _cast(array, kind)
    return moments if moments is not None else _each(array, place, parse_datetime, pa.int64()).view(kind)


def timestamps_of_text(array: Any, place: Place) -> Any:
    kind = pa.timestamp("us", "UTC")
    moments = _cast(array, kind)
    if moments is None and (civil := _cast(array, pa.timestamp("us"))) is not None:
        return civil.view(kind)
    return moments if moments is not None else _each(array, place, parse_timestamp, pa.int64()).view(kind)


def _cast(array: Any, kind: Any) -> Any:
    try:
        return array.cast(kind)
    except pa.ArrowInvalid:
        return None


def _each(array: Any, place: Place, parse: Callable[[str], int], kind: Any) -> Any:
    return pa.array(each(array, place, parse), kind)
