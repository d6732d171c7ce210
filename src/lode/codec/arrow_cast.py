"""From Arrow data of one schema to Arrow data of another, by the same rules as for Python values."""

from __future__ import annotations

from typing import Any, Final

from lode.codec.arrays import to_array
from lode.codec.coerce import CoercionError
from lode.lazy import pa, pt

_TEXT: Final = ("is_string", "is_large_string", "is_string_view")
_OCTETS: Final = ("is_binary", "is_large_binary", "is_binary_view", "is_fixed_size_binary")
_LISTS: Final = ("is_list", "is_large_list", "is_fixed_size_list")


def cast_batch(batch: pa.RecordBatch, schema: pa.Schema, *, first_row: int) -> pa.RecordBatch:
    """Return the batch in ``schema``: columns by name, values unchanged, without a copy where possible.

    Raises:
        SchemaViolationError: A column is unknown or missing, or a value would change; names row and column.
    """
    if batch.schema.equals(schema) and _cannot_be_violated(schema):
        if batch.schema.equals(schema, check_metadata=True):
            return batch
        return pa.RecordBatch.from_arrays(batch.columns, schema=schema)
    names = batch.schema.names
    for name in names:
        if name not in schema.names:
            raise CoercionError(not_in(schema)).at(None, name)
        if names.count(name) > 1:
            raise CoercionError("the column appears more than once").at(None, name)
    arrays = [_column(batch, field, first_row) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def not_in(schema: pa.Schema) -> str:
    """What is wrong with a column that a schema does not have, and the remedy."""
    return (
        f"not in the schema, which has {', '.join(schema.names)}: add it with ds.evolve(add=…) or "
        "write(rows, evolve=True)"
    )


def _cannot_be_violated(schema: pa.Schema) -> bool:
    """Return whether data of this schema always fits it: that takes no look at values."""
    return len(set(schema.names)) == len(schema.names) and all(
        field.nullable and not pt.is_nested(field.type) for field in schema
    )


def _column(batch: pa.RecordBatch, field: pa.Field[Any], first_row: int) -> Any:
    index = batch.schema.get_field_index(field.name)
    if index < 0:
        if not field.nullable and batch.num_rows:
            raise CoercionError("a required column is missing").at(first_row, field.name)
        return pa.nulls(batch.num_rows, field.type)
    array: pa.Array[Any] = batch.column(index)
    if array.type != field.type:
        return _cast(array, field, first_row)
    if not field.nullable and array.null_count:
        row = first_row + array.is_null().to_pylist().index(True)
        raise CoercionError("null in a required column").at(row, field.name)
    return _by_value(array, field, first_row) if _null_inside(array) else array


def _cast(array: Any, field: pa.Field[Any], first_row: int) -> Any:
    if isinstance(array.type, pa.DictionaryType):
        array = array.dictionary_decode()
    if is_lossless(array.type, field.type) and (field.nullable or not array.null_count):
        try:
            cast = array.cast(field.type, safe=True)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            if pt.is_temporal(array.type):
                raise _first_failure(array, field, first_row, error) from None
        else:
            if not _overflowed(array, cast) and not _null_inside(cast):
                return cast
    return _by_value(array, field, first_row)


def is_lossless(source: Any, target: Any, *, nested: bool = False) -> bool:
    """Return whether pyarrow's safe cast between these types keeps every value or fails.

    pyarrow would also parse text, count from booleans and cut times off datetimes: those are not here.
    """
    if source == target or pt.is_null(source):
        return True
    if isinstance(target, pa.DictionaryType):
        return is_lossless(source, target.value_type, nested=nested)
    if pt.is_integer(source):
        return bool(pt.is_integer(target) or pt.is_floating(target) or pt.is_decimal(target))
    if pt.is_floating(source):
        # Narrowing needs a second look at the result, which nested values do not get.
        return bool(pt.is_integer(target)) or (
            bool(pt.is_floating(target)) and not (nested and target.bit_width < source.bit_width)
        )
    if pt.is_timestamp(source):
        return bool(pt.is_timestamp(target)) and (source.tz is None) == (target.tz is None)
    if pt.is_struct(source) and pt.is_struct(target):
        return [f.name for f in source] == [f.name for f in target] and all(
            is_lossless(a.type, b.type, nested=True) for a, b in zip(source, target, strict=True)
        )
    if pt.is_map(source) and pt.is_map(target):
        return is_lossless(source.key_type, target.key_type, nested=True) and is_lossless(
            source.item_type, target.item_type, nested=True
        )
    if _any(_LISTS, source) and _any(_LISTS, target):
        return is_lossless(source.value_type, target.value_type, nested=True)
    alike = (("is_decimal",), _TEXT, _OCTETS, ("is_date",), ("is_time",), ("is_duration",))
    return any(_any(family, source) and _any(family, target) for family in alike)


def _is_nested(kind: Any) -> bool:
    return bool(pt.is_nested(kind))


def _any(tests: tuple[str, ...], kind: Any) -> bool:
    """Return whether one of pyarrow's tests, given by name, holds for a type."""
    return any(getattr(pt, test)(kind) for test in tests)


def _overflowed(array: Any, cast: Any) -> bool:
    """Return whether narrowing floats made an infinity out of a number."""
    if not pt.is_floating(array.type) or not pt.is_floating(cast.type):
        return False
    if cast.type.bit_width >= array.type.bit_width:
        return False
    import pyarrow.compute as pc

    infinite: Any = pc.and_not(pc.is_inf(cast), pc.is_inf(array))
    return bool(pc.any(infinite).as_py())


def _by_value(array: Any, field: pa.Field[Any], first_row: int) -> Any:
    """Take the slow road of Python values, which coerces what may be coerced and names what may not."""
    try:
        values = array.to_pylist()
    except (ValueError, OverflowError) as error:
        row = first_row + array.is_valid().to_pylist().index(True)
        raise CoercionError(f"{array.type} does not fit {field.type}: {error}").at(row, field.name) from None
    return to_array(values, field, first_row=first_row)


def _first_failure(array: Any, field: pa.Field[Any], first_row: int, error: Exception) -> Exception:
    """Find the first row whose cast fails, by halves."""
    good, bad = 0, len(array)
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            array.slice(good, middle - good).cast(field.type, safe=True)
        except pa.ArrowInvalid:
            bad = middle
        else:
            good = middle
    return CoercionError(f"{array.type} to {field.type} would change the value: {error}").at(
        first_row + good, field.name
    )


def _null_inside(array: Any) -> bool:
    """Return whether a nested array has a null where its type allows none."""
    kind: Any = array.type
    if not _is_nested(kind):
        return False
    array = array.drop_null()
    if pt.is_struct(kind):
        return any(_null_within(child, member) for child, member in zip(array.flatten(), kind, strict=True))
    if pt.is_map(kind):
        start, stop = array.offsets[0].as_py(), array.offsets[-1].as_py()
        return _null_within(array.items.slice(start, stop - start), kind.item_field)
    return _any(_LISTS, kind) and _null_within(array.flatten(), kind.value_field)


def _null_within(array: Any, field: Any) -> bool:
    return (not field.nullable and array.null_count > 0) or _null_inside(array)
