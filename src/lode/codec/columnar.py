"""From chunks to Arrow record batches of one schema: what Parquet and Arrow files have in common."""

from __future__ import annotations

from copy import copy
from dataclasses import fields, is_dataclass
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, Final

import msgspec

from lode.codec.arrays import to_array
from lode.codec.arrow_cast import cast_batch, not_in
from lode.codec.coerce import CoercionError, as_mapping
from lode.errors import InvalidOptionError
from lode.lazy import pa

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Self

    from lode.codec.protocol import Chunk

_MISSING: Final = object()


class ColumnarCodec:
    """A frozen codec whose files have one schema each."""

    schema: pa.Schema | None

    def with_schema(self, schema: pa.Schema | None) -> Self:
        """Return this codec with another schema."""
        other = copy(self)
        object.__setattr__(other, "schema", schema)
        return other

    def conform(self, chunk: Chunk, first_row: int) -> Chunk:
        """Return the chunk in the schema, if there is one; an error names rows counted from ``first_row``."""
        return to_batch(chunk, schema_for(chunk, self.schema), first_row=first_row)


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
            "Python records have no schema of their own: create the dataset with one, "
            'lode.Dataset.create(…, schema={"id": "int64!", "name": "string"})'
        )
    if not chunk.schema.names:
        raise InvalidOptionError("the Arrow data has no columns")
    return chunk.schema


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
