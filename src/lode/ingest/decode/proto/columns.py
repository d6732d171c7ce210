"""Columns as ptars gives them, lists and messages included, into columns that the table takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lode.ingest.decode.proto.plan import Shape
from lode.ingest.decode.proto.values import refuse_outside, value_converter
from lode.ingest.types.intervals import MAX_HOURS, interval_text
from lode.lazy import pa

if TYPE_CHECKING:
    from lode.ingest.decode.proto.plan import Field
    from lode.ingest.decode.proto.values import Convert
    from lode.ingest.types.row_errors import Place

# The seconds of 0001-01-01 and of the end of 9999-12-31, counted from 1970-01-01.
_MOMENTS: Final = (-719_162 * 86_400, 2_932_897 * 86_400 - 1)
# Of an INTERVAL, so that its microseconds fit 64 bits.
_LONGEST: Final = MAX_HOURS * 3600
_NANOS: Final = 999_999_999


def column_converter(field: Field) -> Convert | None:
    """How a column of the field becomes one that the table takes; None where it is that already."""
    convert = _of_shape(field)
    if not field.repeated:
        return convert

    def lists(array: Any, place: Place) -> Any:
        values = array.values if convert is None else convert(array.values, place.within(array))
        return pa.ListArray.from_arrays(array.offsets, values)

    return lists


def _of_shape(field: Field) -> Convert | None:
    match field.shape:
        case Shape.SCALAR:
            convert = value_converter(field)
            return _never_null(convert) if field.never_unset else convert
        case Shape.WRAPPER:
            return _unwrapped(value_converter(field))
        case Shape.TIMESTAMP:
            return _timestamps
        case Shape.DURATION:
            return _intervals
        case Shape.MESSAGE:
            return _structs(field)


def _structs(field: Field) -> Convert:
    members = [(member, column_converter(member)) for member in field.fields]
    names = [member.column.name for member in field.fields]

    def convert(array: Any, place: Place) -> Any:
        made = []
        for position, (member, convert_member) in enumerate(members):
            value = array.field(position)
            below = place.child(member.column.name)
            if member.required:
                report_unset(value, array, below)
            made.append(value if convert_member is None else convert_member(value, below))
        if not made:
            return array
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(made, names=names, mask=mask)

    return convert


def report_unset(array: Any, parent: Any, place: Place) -> None:
    """Report where a field is unset that proto2 calls required, except in messages that are unset."""
    import pyarrow.compute as pc

    if array.null_count:
        compute: Any = pc
        unset = array.is_null() if parent is None else compute.and_(array.is_null(), parent.is_valid())
        place.report_where(unset, "the descriptor calls it required, and it is not set.")


def _filled(array: Any) -> Any:
    """The array with zero, or nothing, for nulls."""
    import pyarrow.compute as pc

    compute: Any = pc
    zero = pa.scalar("" if array.type == pa.string() else b"" if array.type == pa.binary() else 0)
    return compute.fill_null(array, zero.cast(array.type)) if array.null_count else array


def _never_null(convert: Convert | None) -> Convert:
    if convert is None:
        return lambda array, _place: _filled(array)
    return lambda array, place: convert(_filled(array), place)


def _unwrapped(convert: Convert | None) -> Convert:
    """Values of wrapper messages: one that is there without a value is zero, or empty."""

    def unwrap(array: Any, place: Place) -> Any:
        import pyarrow.compute as pc

        compute: Any = pc
        value = array.field(0)
        if value.null_count != array.null_count:
            value = compute.if_else(array.is_valid(), _filled(value), pa.scalar(None, value.type))
        return value if convert is None else convert(value, place)

    return unwrap


def _timestamps(array: Any, place: Place) -> Any:
    import pyarrow.compute as pc

    compute: Any = pc
    seconds = refuse_outside(_filled(array.field(0)), *_MOMENTS, place, "a Timestamp's seconds")
    nanos = refuse_outside(_filled(array.field(1)), 0, _NANOS, place, "a Timestamp's nanos")
    micros = compute.add(
        compute.multiply(seconds, pa.scalar(1_000_000, pa.int64())),
        compute.divide(nanos.cast(pa.int64()), pa.scalar(1000, pa.int64())),
    )
    if array.null_count:
        micros = compute.if_else(array.is_valid(), micros, pa.scalar(None, pa.int64()))
    return micros.view(pa.timestamp("us", "UTC"))


def _intervals(array: Any, place: Place) -> Any:
    """Durations as INTERVALs of no months and no days, cut to microseconds as a Timestamp is."""
    seconds = refuse_outside(_filled(array.field(0)), -_LONGEST, _LONGEST, place, "an INTERVAL").to_pylist()
    nanos = refuse_outside(_filled(array.field(1)), -_NANOS, _NANOS, place, "a Duration's nanos").to_pylist()
    texts: list[str | None] = []
    bad: dict[int, str] = {}
    for index, (is_set, second, nano) in enumerate(
        zip(array.is_valid().to_pylist(), seconds, nanos, strict=True)
    ):
        texts.append(None)
        if not is_set or second is None or nano is None:
            continue
        if second * nano < 0:
            bad[index] = "the seconds and nanos of a Duration must have the same sign."
        else:
            try:
                texts[index] = interval_text(0, 0, second * 1_000_000 + int(nano / 1000))
            except ValueError as why:
                bad[index] = f"a Duration of {second} seconds {why}."
    place.report(bad, lambda index: bad[index])
    return pa.array(texts, pa.string())
