"""Values as protobuf has them into values of Arrow types that their column takes, all of a column at once.

Ranges, lengths and digits are not checked here but with every other writer's, in ``fit.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from lode.ingest.decode.proto.civil import unpack_datetimes, unpack_times
from lode.ingest.decode.proto.plan import INT32, F
from lode.ingest.decode.proto.text import dates_of_text, datetimes_of_text, times_of_text, timestamps_of_text
from lode.ingest.types.decimals import decimals_of_bytes, decimals_of_floats
from lode.ingest.types.row_errors import shown
from lode.lazy import pa

if TYPE_CHECKING:
    from collections.abc import Callable

    from lode.ingest.decode.proto.plan import Field
    from lode.ingest.types.row_errors import Place

    Convert: TypeAlias = Callable[[Any, Place], Any]

_TEXT_READERS: Final = {
    "DATE": dates_of_text,
    "TIME": times_of_text,
    "DATETIME": datetimes_of_text,
    "TIMESTAMP": timestamps_of_text,
}
_INT32: Final = (-(2**31), 2**31 - 1)


def value_converter(field: Field) -> Convert | None:
    """How values of a scalar field become what its column takes; None where they are that already."""
    match field.column.type:
        case "STRING" if field.kind == F.TYPE_ENUM:
            return _names(field)
        case "BYTES" if field.kind == F.TYPE_STRING:
            return lambda array, _place: array.cast(pa.binary())
        case "BOOL" if field.kind != F.TYPE_BOOL:
            return _booleans
        case "NUMERIC" | "BIGNUMERIC" if field.kind == F.TYPE_BYTES:
            return lambda array, place: decimals_of_bytes(array, field.column, place)
        case "NUMERIC" | "BIGNUMERIC" if field.kind in (F.TYPE_DOUBLE, F.TYPE_FLOAT):
            return lambda array, place: decimals_of_floats(array, field.column, place)
        case "DATE" | "TIME" | "DATETIME" | "TIMESTAMP" if field.kind == F.TYPE_STRING:
            return _TEXT_READERS[field.column.type]
        case "DATE":
            return _dates if field.kind in INT32 else _far_dates
        case "TIME":
            return unpack_times
        case "DATETIME":
            return unpack_datetimes
        case "TIMESTAMP":
            return _timestamps
        case _:
            return None


def _names(field: Field) -> Convert:
    assert field.names is not None
    numbers, names = field.names.numbers, field.names.names

    def convert(array: Any, place: Place) -> Any:
        import pyarrow.compute as pc

        compute: Any = pc
        positions = compute.index_in(array, value_set=numbers)
        if positions.null_count != array.null_count:
            unknown = compute.and_(positions.is_null(), array.is_valid())
            place.report_where(unknown, lambda index: f"its enum has no name for the number {array[index]}.")
        return names.take(positions)

    return convert


def _booleans(array: Any, _place: Place) -> Any:
    import pyarrow.compute as pc

    compute: Any = pc
    return compute.not_equal(array, pa.scalar(0, array.type))


def _timestamps(array: Any, _place: Place) -> Any:
    micros = array if array.type == pa.int64() else array.cast(pa.int64())
    return micros.view(pa.timestamp("us", "UTC"))


def _dates(array: Any, _place: Place) -> Any:
    return array.view(pa.date32())


def _far_dates(array: Any, place: Place) -> Any:
    """Days as int64, of which date32 has no room for all."""
    return refuse_outside(array, *_INT32, place, "DATE").cast(pa.int32()).view(pa.date32())


def refuse_outside(array: Any, low: int, high: int, place: Place, what: str) -> Any:
    """Report the integers out of a range; return the array with nulls in their places."""
    import pyarrow.compute as pc

    compute: Any = pc
    ends = compute.min_max(array)
    least, most = ends["min"].as_py(), ends["max"].as_py()
    if least is None or (low <= least and most <= high):
        return array
    outside = compute.or_(
        compute.less(array, pa.scalar(low, array.type)), compute.greater(array, pa.scalar(high, array.type))
    )
    place.report_where(outside, lambda index: f"{shown(array, index)} is out of the range of {what}.")
    return compute.if_else(outside, pa.scalar(None, array.type), array)
