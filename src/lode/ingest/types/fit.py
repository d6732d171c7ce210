"""Arrays of a writer made to fit a column: cast, completed and checked, to any depth.

Arrays that fit already pass through untouched. Everything is decided once for a writer's schema. For each
batch only Arrow's kernels run; Python looks at single values only to report bad ones.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from lode.ingest.status import Code, Refused, StorageCode, invalid
from lode.ingest.types.arrays import check_affordable, list_array, missing, with_nulls, without_validity
from lode.ingest.types.columns import arrow_field, arrow_type
from lode.ingest.types.decimals import decimals_for
from lode.ingest.types.geography import geographies_of_text, need_shapely
from lode.ingest.types.intervals import intervals_of_arrow, intervals_of_text
from lode.ingest.types.row_errors import failing, shown
from lode.lazy import pa, pc, pt
from lode.times import DAY_MICROS, MAX_DAY, MAX_MICROS, MIN_DAY, MIN_MICROS

if TYPE_CHECKING:
    from collections.abc import Callable

    from lode.ingest.types.columns import Column
    from lode.ingest.types.row_errors import Origin

    Fit: TypeAlias = Callable[[pa.Array[Any], Origin], pa.Array[Any]]
    Check: TypeAlias = Callable[[pa.Array[Any], Origin], None]


def fit_for(column: Column, kind: pa.DataType, path: str = "") -> Fit:
    """Return the function that makes arrays of an Arrow type fit the column, or refuse the type.

    The function reports bad values to its origin and goes on; its result is right only if there were none. It
    does not check for nulls in a REQUIRED column: these count only where the parent is not null.
    """
    path = path or column.name
    if isinstance(kind, pa.BaseExtensionType):
        return _of_storage(fit_for(column, kind.storage_type, path))
    if pt.is_null(kind):
        return _nulls(column)
    if column.mode == "REPEATED":
        return _lists(column, kind, path)
    return _values(column, kind, path)


def match_children(columns: tuple[Column, ...], names: list[str], path: str = "") -> list[int | None]:
    """For each column the position of its name among the names, or None. Other names are refused."""
    positions: dict[str, int] = {}
    for position, name in enumerate(names):
        if name.lower() in positions:
            raise invalid(f"Column {path + name!r} appears twice in the writer's schema.", ends_call=True)
        positions[name.lower()] = position
    found = [positions.pop(column.name.lower(), None) for column in columns]
    for position in positions.values():
        raise extra_column(path + names[position])
    return found


def extra_column(path: str) -> Refused:
    """The refusal of a column that the table lacks."""
    return Refused(
        Code.INVALID_ARGUMENT,
        f"Input schema has more fields than BigQuery schema, extra fields: '{path}'. "
        "Add the column to the table first.",
        storage=StorageCode.SCHEMA_MISMATCH_EXTRA_FIELDS,
        ends_call=True,
    )


def _of_storage(fit: Fit) -> Fit:
    """The fit of an extension type by its storage."""

    def fit_storage(array: Any, origin: Origin) -> pa.Array[Any]:
        return fit(array.storage, origin)

    return fit_storage


def _nulls(column: Column) -> Fit:
    def fit(array: pa.Array[Any], origin: Origin) -> pa.Array[Any]:
        check_affordable(len(array), f"column {origin.path!r}")
        return missing(column, len(array))

    return fit


def _values(column: Column, kind: pa.DataType, path: str) -> Fit:
    if column.children:
        return _structs(column, kind, path)
    if not _takes(column, kind):
        raise _unfit(column, kind, path)
    cast, check = _cast_for(column, kind), _check_for(column)
    if cast is None:
        return unchanged if check is None else Checked(check)

    def fit(array: pa.Array[Any], origin: Origin) -> pa.Array[Any]:
        array = cast(array, origin)
        if check is not None:
            check(array, origin)
        return array

    return fit


def unchanged(array: pa.Array[Any], _: Origin) -> pa.Array[Any]:
    """The fit of a type whose values are all stored as they are."""
    return array


class Checked:
    """The fit of a type whose values are stored as they are, if they pass a check."""

    def __init__(self, check: Check) -> None:
        self._check = check

    def __call__(self, array: pa.Array[Any], origin: Origin) -> pa.Array[Any]:
        self._check(array, origin)
        return array


def _unfit(column: Column, kind: pa.DataType, path: str) -> Refused:
    repeated = "REPEATED " if column.mode == "REPEATED" else ""
    return invalid(
        f"Column {path!r} is {repeated}{column.type}, which the Arrow type {kind} does not fit.",
        ends_call=True,
    )


def _structs(column: Column, kind: Any, path: str) -> Fit:
    if not pt.is_struct(kind):
        raise _unfit(column, kind, path)
    target: Any = arrow_type(column)
    fields = list(target)
    sources = match_children(column.children, [field.name for field in kind], path + ".")
    plan = [
        (child, source, None if source is None else fit_for(child, kind[source].type, f"{path}.{child.name}"))
        for child, source in zip(column.children, sources, strict=True)
    ]
    left_out = sum(fit is None for _, _, fit in plan)
    same, check = kind == target, _check_for(column)

    def fit(array: Any, origin: Origin) -> pa.Array[Any]:
        check_affordable(len(array) * left_out, f"column {origin.path!r}")
        sent = array.flatten()
        made: list[pa.Array[Any]] = []
        untouched = same
        for child, source, fit_child in plan:
            below = origin.child(child.name)
            if source is None or fit_child is None:
                value = missing(child, len(array))
            else:
                value = fit_child(sent[source], below)
            if child.mode == "REQUIRED" and value.null_count:
                _require(array, value, below)
                value = without_validity(value)
            untouched = untouched and source is not None and value is sent[source]
            made.append(value)
        if not untouched:
            mask = array.is_null() if array.null_count else None
            array = pa.StructArray.from_arrays(made, fields=fields, mask=mask)
        if check is not None:
            check(array, origin)
        fitted: pa.Array[Any] = array
        return fitted

    return fit


def _require(parent: pa.Array[Any], child: pa.Array[Any], origin: Origin) -> None:
    """Report the nulls of a REQUIRED field, except in structs that are null themselves."""
    absent: Any = pc.and_(child.is_null(), parent.is_valid())
    origin.report_where(absent, "it is REQUIRED, and null.")


def _lists(column: Column, kind: Any, path: str) -> Fit:
    if not (pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind)):
        raise _unfit(column, kind, path)
    if pt.is_null(kind.value_type):
        # Nulls take no bytes on the wire, so a list of them could have any length.
        raise _unfit(column, kind, path)
    target: Any = arrow_field(column).type
    element = _element(column, kind.value_type, path)
    same = kind == target

    def fit(array: Any, origin: Origin) -> pa.Array[Any]:
        values = array.flatten()
        if not same or array.null_count:
            array = list_array(array, values)
        inside = origin.within(array)
        fitted = element(values, inside)
        if fitted.null_count:
            inside.report_where(fitted.is_null(), "an element of a REPEATED column is null.")
        if array.type == target and fitted is values:
            result: pa.Array[Any] = array
        else:
            result = list_array(array, fitted, target)
        return result

    return fit


def _element(column: Column, kind: Any, path: str) -> Fit:
    if isinstance(kind, pa.BaseExtensionType):
        return _of_storage(_values(column, kind.storage_type, path))
    return _values(column, kind, path)


# -- casts: nothing is lost but the digits of a number beyond its column's scale -----------------------

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


def _takes(column: Column, kind: pa.DataType) -> bool:
    """Whether the column, not a STRUCT, takes values of the Arrow type."""
    if column.type == "DATETIME" and pt.is_timestamp(kind) and kind.tz is not None:
        # A point in time has no civil time until a zone is chosen.
        return False
    if pt.is_decimal(kind) and not 0 <= kind.scale <= kind.precision:
        # Arrow looks up powers of ten by the scale without a check of bounds.
        return False
    return any(getattr(pt, question)(kind) for question in _TAKEN[column.type])


def _cast_for(column: Column, kind: pa.DataType) -> Fit | None:
    """How values of a type that the column takes become the column's; None if they are already."""
    match column.type:
        case "NUMERIC" | "BIGNUMERIC":
            return _of_plain_text(kind, decimals_for(column, kind))
        case "INTERVAL":
            return intervals_of_arrow if pt.is_interval(kind) else _of_plain_text(kind, intervals_of_text)
        case "GEOGRAPHY":
            # Loads shapely on the thread that makes decoders, and not with the first rows on the event loop.
            with suppress(Refused):
                need_shapely(column.name)
            return _of_plain_text(kind, geographies_of_text)
    return None if kind == arrow_type(column) else _arrow_cast(column, kind)


def _of_plain_text(kind: pa.DataType, parse: Fit) -> Fit:
    if pt.is_string_view(kind) or pt.is_large_string(kind):
        return lambda array, origin: parse(array.cast(pa.string()), origin)
    return parse


def _arrow_cast(column: Column, kind: pa.DataType) -> Fit:
    target = arrow_type(column)
    viewed = pt.is_string_view(kind) or pt.is_binary_view(kind)
    plain: pa.DataType = pa.string() if pt.is_string_view(kind) else pa.binary()

    def cast(array: pa.Array[Any], origin: Origin) -> pa.Array[Any]:
        if viewed:
            array = array.cast(plain)
        try:
            return array.cast(target)
        except pa.ArrowException:
            bad = failing(array, lambda part: part.cast(target))
        values = array
        origin.report(bad, lambda index: f"{shown(values, index)} does not fit {column.type} without loss.")
        return with_nulls(array, bad).cast(target)

    return cast


# -- checks beyond the Arrow type: ranges, lengths, valid JSON -----------------------------------------

_BOUNDS: Final = {
    "TIMESTAMP": (MIN_MICROS, MAX_MICROS),
    "DATETIME": (MIN_MICROS, MAX_MICROS),
    "DATE": (MIN_DAY, MAX_DAY),
    "TIME": (0, DAY_MICROS - 1),
}
# Raw reads the text to its end without making values of it.
_READ_JSON: Final = msgspec.json.Decoder(msgspec.Raw).decode


def _check_for(column: Column) -> Check | None:
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


def _length(limit: int, kernel: str) -> Check:
    def check(array: pa.Array[Any], origin: Origin) -> None:
        lengths: Any = pc.call_function(kernel, [array])
        longest = pc.max(lengths).as_py()
        if longest is not None and longest > limit:
            origin.report_where(
                pc.greater(lengths, pa.scalar(limit, lengths.type)),
                lambda index: f"a value of length {lengths[index]} is longer than {limit}.",
            )

    return check


def _bounds(name: str) -> Check:
    low, high = _BOUNDS[name]
    stored = pa.int32() if name == "DATE" else pa.int64()
    range_text = "00:00:00 to 23:59:59.999999" if name == "TIME" else "years 1 to 9999"
    # For 1,000 values, pc.min_max takes half as long again.
    min_max, options = pc.get_function("min_max"), pc.ScalarAggregateOptions()

    def check(array: pa.Array[Any], origin: Origin) -> None:
        numbers: Any = array.view(stored)
        extremes: Any = min_max.call([numbers], options)
        least, most = extremes["min"].as_py(), extremes["max"].as_py()
        if least is not None and (least < low or most > high):
            outside: Any = pc.or_(
                pc.less(numbers, pa.scalar(low, stored)), pc.greater(numbers, pa.scalar(high, stored))
            )
            origin.report_where(outside, f"a {name} is out of its range ({range_text}).")

    return check


def is_json(text: bytes) -> bool:
    """Whether the text is one JSON value, nested no deeper than Python can follow."""
    try:
        _READ_JSON(text)
    except (msgspec.MsgspecError, RecursionError):
        return False
    return True


def _json(array: pa.Array[Any], origin: Origin) -> None:
    values: list[bytes | None] = array.cast(pa.binary()).to_pylist()
    bad = [index for index, text in enumerate(values) if text is not None and not is_json(text)]
    origin.report(bad, lambda index: f"{shown(array, index)} is not valid JSON.")


def _range(array: Any, origin: Origin) -> None:
    start, end = array.flatten()
    backwards: Any = pc.greater_equal(start, end)
    if pc.any(backwards, min_count=0).as_py():
        origin.report_where(backwards, "the start of a RANGE must be before its end.")
