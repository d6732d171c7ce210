"""From chunks to Arrow record batches of one schema: what Parquet and Arrow files have in common.

Columns whose values already have the right Python type, which is nearly all of them, go to pyarrow as they
are. Only a column that needs coercion, or that pyarrow refuses, is visited value by value.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from datetime import date, datetime, time
from decimal import Decimal
from itertools import chain
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, Final

import msgspec

from lode.codec.arrow_cast import cast_batch, not_in
from lode.codec.coerce import CoercionError, as_mapping, field_coercion
from lode.errors import InvalidOptionError
from lode.lazy import pa, pt

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from lode.codec.protocol import Chunk

_MISSING: Final = object()
_NONE: Final = type(None)
_FLOAT32_MAX: Final = 3.4028234663852886e38

# pyarrow reads more shapes than RFC 3339 has. What does not look like this goes the slow way, which decides.
_CLOCK: Final = r"[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?"
_YEAR: Final = "(000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})"  # a Python date begins with year 1
_MOMENT: Final = rf"^{_YEAR}-[0-9]{{2}}-[0-9]{{2}}[T ]{_CLOCK}"
_ZONED: Final = _MOMENT + r"(Z|[+-][0-9]{2}:[0-9]{2})$"
_NAIVE: Final = _MOMENT + "$"
_DATE: Final = rf"^{_YEAR}-[0-9]{{2}}-[0-9]{{2}}$"


def to_batch(chunk: Chunk, schema: pa.Schema, *, first_row: int, from_json: bool = False) -> pa.RecordBatch:
    """Return a chunk as a record batch of exactly ``schema``; Arrow data of that schema is not copied.

    Args:
        chunk: Records, or Arrow data.
        schema: What the batch must be.
        first_row: The number of the chunk's first row, for errors.
        from_json: The records come out of JSON, where bytes are base64 text.

    Raises:
        SchemaViolationError: A row does not fit; names row and column.
    """
    if not isinstance(chunk, list):
        return cast_batch(chunk, schema, first_row=first_row)
    columns = _columns(chunk, schema, first_row)
    arrays = [
        to_array(values, field, first_row=first_row, from_json=from_json)
        for values, field in zip(columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def arrow_batches(
    chunks: Iterable[Chunk], schema: pa.Schema | None, *, from_json: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield chunks as record batches of one schema; without one, the first Arrow chunk's.

    Raises:
        InvalidOptionError: There are records, and no schema to read them by.
        SchemaViolationError: A row does not fit; names row and column.
    """
    row = 0
    for chunk in chunks:
        schema = schema_for(chunk, schema)
        yield to_batch(chunk, schema, first_row=row, from_json=from_json)
        row += len(chunk)


def schema_for(chunk: Chunk, schema: pa.Schema | None) -> pa.Schema:
    """Return ``schema``, or else the one that the chunk brings along."""
    if schema is not None:
        return schema
    if isinstance(chunk, list):
        raise InvalidOptionError(
            "Python records have no schema of their own: give the codec one, "
            'such as {"id": "int64!", "name": "string"}'
        )
    if not chunk.schema.names:
        raise InvalidOptionError("the Arrow data has no columns")
    return chunk.schema


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
    """Tell whether pyarrow, for these values and this type, either keeps every value or raises."""
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


def _columns(rows: list[Any], schema: pa.Schema, first_row: int) -> list[list[Any]]:
    """Turn rows into columns in the schema's order; unknown and missing fields are errors."""
    kinds = set(map(type, rows))
    if kinds != {dict}:
        found = _attributes(rows, kinds, schema)
        if found is not None:
            return found
        # Plain dicts, because a subclass may make up values for keys it does not have.
        rows = [dict(_to_mapping(record, row)) for row, record in enumerate(rows, first_row)]
    names = schema.names
    if set(map(len, rows)) <= {len(names)}:
        try:
            # As many fields as the schema and each of the schema's: no others can be there.
            return [list(map(itemgetter(name), rows)) for name in names]
        except KeyError:
            pass
    return _sparse_columns(rows, schema, first_row)


def _sparse_columns(rows: list[Mapping[str, Any]], schema: pa.Schema, first_row: int) -> list[list[Any]]:
    present = 0
    columns = []
    for field in schema:
        values = [row.get(field.name, _MISSING) for row in rows]
        missing = values.count(_MISSING)
        present += len(values) - missing
        if missing and not field.nullable:
            raise CoercionError("a required column is missing").at(
                first_row + values.index(_MISSING), field.name
            )
        columns.append([None if v is _MISSING else v for v in values] if missing else values)
    if present != sum(map(len, rows)):
        raise _unknown_field(rows, schema, first_row)
    return columns


def _unknown_field(rows: list[Mapping[str, Any]], schema: pa.Schema, first_row: int) -> Exception:
    known = set(schema.names)
    row, name = next(
        (row, name) for row, record in enumerate(rows, first_row) for name in record if name not in known
    )
    return CoercionError(not_in(schema)).at(row, str(name))


def _attributes(rows: list[Any], kinds: set[type], schema: pa.Schema) -> list[list[Any]] | None:
    """Read the columns of records of one class without a dict for each, if nothing is unusual."""
    if len(kinds) != 1:
        return None
    (kind,) = kinds
    if issubclass(kind, msgspec.Struct):
        names = set(kind.__struct_fields__)
    elif is_dataclass(kind):
        names = {field.name for field in fields(kind)}
    else:
        return None
    if names != set(schema.names):
        return None
    try:
        columns = [list(map(attrgetter(name), rows)) for name in schema.names]
    except AttributeError:
        return None
    unset = any(msgspec.UnsetType in set(map(type, values)) for values in columns)
    return None if unset else columns


def _to_mapping(record: Any, row: int) -> Mapping[str, Any]:
    try:
        mapping = as_mapping(record)
    except AttributeError as error:
        raise CoercionError(f"the record lacks a value: {error}").at(row, "") from None
    if mapping is None:
        raise CoercionError(
            f"{type(record).__name__} is not a record with named fields: give dicts, dataclasses or structs"
        ).at(row, "")
    return mapping
