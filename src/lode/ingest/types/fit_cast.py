"""Which Arrow types a column takes beside its own, and how their values become the column's.

Nothing is lost but the digits of a number beyond its column's scale; see ``decimals.py``.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from lode.ingest.status import Refused
from lode.ingest.types.columns import arrow_type
from lode.ingest.types.decimals import decimals_for
from lode.ingest.types.geography import geographies_of_text, need_shapely
from lode.ingest.types.intervals import intervals_of_arrow, intervals_of_text
from lode.ingest.types.row_errors import failing, shown
from lode.lazy import pa, pt

if TYPE_CHECKING:
    from collections.abc import Callable

    from lode.ingest.types.columns import Column
    from lode.ingest.types.row_errors import Place

    Cast: TypeAlias = Callable[[pa.Array[Any], Place], pa.Array[Any]]

_TEXT: Final = ("is_string", "is_large_string", "is_string_view")
_TAKEN: Final = {
    "STRING": _TEXT,
    "JSON": _TEXT,
    "GEOGRAPHY": _TEXT,
    "INTERVAL": (*_TEXT, "is_interval"),
    "BYTES": ("is_binary", "is_large_binary", "is_binary_view", "is_fixed_size_binary"),
    "INT64": ("is_integer",),
    "FLOAT64": ("is_floating", "is_integer"),
    "BOOL": ("is_boolean",),
    "TIMESTAMP": ("is_timestamp",),
    "DATETIME": ("is_timestamp",),
    "DATE": ("is_date",),
    "TIME": ("is_time",),
    "NUMERIC": ("is_decimal", "is_integer", *_TEXT),
    "BIGNUMERIC": ("is_decimal", "is_integer", *_TEXT),
}


def takes(column: Column, kind: pa.DataType) -> bool:
    """Whether the column, not a STRUCT, takes values of the Arrow type."""
    if column.type == "DATETIME" and pt.is_timestamp(kind) and kind.tz is not None:
        # A moment has no civil time before someone chooses a zone.
        return False
    if pt.is_decimal(kind) and not 0 <= kind.scale <= kind.precision:
        # Arrow looks up powers of ten by the scale without looking how many it has.
        return False
    return any(getattr(pt, question)(kind) for question in _TAKEN[column.type])


def cast_for(column: Column, kind: pa.DataType) -> Cast | None:
    """How values of a type the column takes become the column's; None if they already are."""
    match column.type:
        case "NUMERIC" | "BIGNUMERIC":
            return _read(kind, decimals_for(column, kind))
        case "INTERVAL":
            return intervals_of_arrow if pt.is_interval(kind) else _read(kind, intervals_of_text)
        case "GEOGRAPHY":
            # Loaded now, on the thread that makes decoders, and not with the first rows, on the event loop.
            with suppress(Refused):
                need_shapely(column.name)
            return _read(kind, geographies_of_text)
    return None if kind == arrow_type(column) else _plain_cast(column, kind)


def _read(kind: pa.DataType, parse: Cast) -> Cast:
    """Parse values of the type; text of any Arrow type is plain text before."""
    if pt.is_string_view(kind) or pt.is_large_string(kind):
        return lambda array, place: parse(array.cast(pa.string()), place)
    return parse


def _plain_cast(column: Column, kind: pa.DataType) -> Cast:
    target = arrow_type(column)
    viewed = pt.is_string_view(kind) or pt.is_binary_view(kind)
    plain: pa.DataType = pa.string() if pt.is_string_view(kind) else pa.binary()

    def cast(array: pa.Array[Any], place: Place) -> pa.Array[Any]:
        if viewed:
            array = array.cast(plain)
        try:
            return array.cast(target)
        except pa.ArrowException:
            bad = failing(array, lambda part: part.cast(target))
        values = array
        place.report(bad, lambda index: f"{shown(values, index)} does not fit {column.type} without loss.")
        return without(array, bad).cast(target)

    return cast


def without(array: pa.Array[Any], bad: list[int]) -> pa.Array[Any]:
    """The array with nulls for the bad values."""
    if pt.is_string_view(array.type) or pt.is_binary_view(array.type):
        # Arrow cannot pick from views; what is left of them is looked at no further.
        return pa.nulls(len(array), array.type)
    refused = set(bad)
    kept = [None if index in refused else index for index in range(len(array))]
    return array.take(pa.array(kept, pa.int64()))


def viewed_bytes(array: pa.Array[Any]) -> int:
    """How many bytes the views of an array come to."""
    import pyarrow.compute as pc

    views = array.buffers()[1]
    if views is None or not len(array):
        return 0
    # A view is sixteen bytes, of which the first four are the length.
    count = array.offset + len(array)
    words = pa.Array.from_buffers(pa.int32(), 4 * count, [None, views])
    lengths: Any = pc.list_element(pa.FixedSizeListArray.from_arrays(words, 4), 0)
    total: int = pc.sum(pc.cast(lengths, pa.int64())).as_py()
    return total
