"""What the values of a column must be beyond their Arrow type: ranges, lengths, valid JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from lode.ingest.types.row_errors import shown
from lode.lazy import pa

if TYPE_CHECKING:
    from collections.abc import Callable

    from lode.ingest.types.columns import Column
    from lode.ingest.types.row_errors import Place

    Check: TypeAlias = Callable[[pa.Array[Any], Place], None]

_DAY_US: Final = 86_400_000_000
# The days of 0001-01-01 and 9999-12-31, counted from 1970-01-01.
_FIRST_DAY: Final = -719_162
_LAST_DAY: Final = 2_932_896
_MOMENTS: Final = (_FIRST_DAY * _DAY_US, (_LAST_DAY + 1) * _DAY_US - 1)
_BOUNDS: Final = {
    "TIMESTAMP": _MOMENTS,
    "DATETIME": _MOMENTS,
    "DATE": (_FIRST_DAY, _LAST_DAY),
    "TIME": (0, _DAY_US - 1),
}


def check_for(column: Column) -> Check | None:
    """The check of one value of the column, or of one element; None if its Arrow type says it all."""
    match column.type:
        case "STRING" | "BYTES" if column.max_length:
            return _length(column.max_length, "utf8_length" if column.type == "STRING" else "binary_length")
        case "TIMESTAMP" | "DATETIME" | "DATE" | "TIME":
            return _bounds(column.type)
        case "JSON":
            return _json
        case "RANGE":
            return _range
        case _:
            return None


def _length(most: int, kernel: str) -> Check:
    def check(array: pa.Array[Any], place: Place) -> None:
        import pyarrow.compute as pc

        lengths: Any = pc.call_function(kernel, [array])
        longest = pc.max(lengths).as_py()
        if longest is not None and longest > most:
            place.report_where(
                pc.greater(lengths, pa.scalar(most, lengths.type)),
                lambda index: f"a value of length {lengths[index]} is longer than {most}.",
            )

    return check


def _bounds(name: str) -> Check:
    low, high = _BOUNDS[name]
    stored = pa.int32() if name == "DATE" else pa.int64()

    def check(array: pa.Array[Any], place: Place) -> None:
        import pyarrow.compute as pc

        numbers: Any = array.view(stored)
        extremes = pc.min_max(numbers)
        least, most = extremes["min"].as_py(), extremes["max"].as_py()
        if least is not None and (least < low or most > high):
            place.report_where(
                pc.or_(
                    pc.less(numbers, pa.scalar(low, stored)), pc.greater(numbers, pa.scalar(high, stored))
                ),
                f"a {name} is out of its range ({_range_of(name)}).",
            )

    return check


def _range_of(name: str) -> str:
    return "00:00:00 to 23:59:59.999999" if name == "TIME" else "years 1 to 9999"


# Raw reads the text to its end without making values of it.
_READ_JSON: Final = msgspec.json.Decoder(msgspec.Raw).decode


def is_json(text: bytes) -> bool:
    """Whether the text is one JSON value, nested no deeper than Python can follow."""
    try:
        _READ_JSON(text)
    except (msgspec.MsgspecError, RecursionError):
        return False
    return True


def _json(array: pa.Array[Any], place: Place) -> None:
    values: list[bytes | None] = array.cast(pa.binary()).to_pylist()
    bad = [index for index, text in enumerate(values) if text is not None and not is_json(text)]
    place.report(bad, lambda index: f"{shown(array, index)} is not valid JSON.")


def _range(array: Any, place: Place) -> None:
    import pyarrow.compute as pc

    start, end = array.flatten()
    backwards: Any = pc.greater_equal(start, end)
    if pc.any(backwards, min_count=0).as_py():
        place.report_where(backwards, "the start of a RANGE must be before its end.")
