"""The many shapes of data a write accepts, as one stream of bounded chunks.

A chunk is a list of records or an Arrow record batch. Data is pulled as it is needed: at most one
chunk is ever held, and Arrow data is sliced, never copied.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final

import msgspec

from lode.errors import InvalidOptionError
from lode.lazy import pa

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lode.codec.protocol import Chunk

ROWS_PER_CHUNK: Final = 8192
BYTES_PER_CHUNK: Final = 8 << 20

# Records are weighed by sample, slice by slice, so that a chunk of fat records closes early.
_FIRST_SLICE: Final = 16
_MAX_SLICE_ROWS: Final = 512
_SAMPLES: Final = 4
_ARROW_ROWS_PER_CHUNK: Final = 65_536
_DEPTH: Final = 4
_LEAVES: Final = frozenset({str, bytes, bool, int, float, type(None)})

_WHAT_TO_PASS: Final = (
    "pass an iterable of records (dicts, dataclasses, msgspec structs), "
    "or Arrow data (a table, batch, reader, or a data frame that exports Arrow)"
)


def chunks_of(data: Any, *, rows_per_chunk: int | None = None) -> Iterator[Chunk]:
    """Yield ``data`` as chunks of bounded size, in order.

    Errors raised by the caller's own iterator pass through unchanged. Arrow data without rows yields
    one empty batch, because its schema is still worth knowing.

    Args:
        data: An Arrow table, batch or reader; anything that exports Arrow (pandas, polars, duckdb);
            an iterable of those; or an iterable of records.
        rows_per_chunk: The most rows a chunk may have. Chunks of large rows have fewer.

    Raises:
        InvalidOptionError: ``data`` is none of these.
    """
    if rows_per_chunk is not None and rows_per_chunk < 1:
        raise InvalidOptionError(f"rows_per_chunk must be at least 1, got {rows_per_chunk}")
    if type(data) is list:
        return _from_iterable(data, rows_per_chunk)
    if _is_arrow(data):
        return _sliced(_batches(data), rows_per_chunk or _ARROW_ROWS_PER_CHUNK)
    if isinstance(data, Mapping | str | bytes | bytearray | memoryview | msgspec.Struct) or is_dataclass(
        data
    ):
        raise InvalidOptionError(
            f"a single {type(data).__name__} is one record: put it in a list, or {_WHAT_TO_PASS}"
        )
    if not isinstance(data, Iterable):
        raise InvalidOptionError(f"cannot read records from a {type(data).__name__}: {_WHAT_TO_PASS}")
    return _from_iterable(data, rows_per_chunk)


def peek_schema(data: Any) -> tuple[Any, pa.Schema | None]:
    """Return the data, and the schema that Arrow data brings along; None for records.

    What can be read only once is returned as something that can still be read.
    """
    if type(data) is list and not (data and _is_arrow(data[0])):
        return data, None  # the most frequent kind of small writes
    if isinstance(data, pa.Table | pa.RecordBatch | pa.RecordBatchReader):
        # What has no columns cannot say which the dataset has.
        return data, _cleaned_schema(data.schema) if data.schema.names else None
    if _is_arrow(data):
        reader = _foreign_reader(data)
        batches = _read(reader, _unnamed(reader.schema))
        schema = _cleaned_schema(reader.schema, _unnamed(reader.schema))
        return pa.RecordBatchReader.from_batches(schema, batches), schema
    if not isinstance(data, Iterable) or isinstance(data, Mapping | str | bytes | bytearray | memoryview):
        return data, None
    if isinstance(data, list | tuple) and not (data and _is_arrow(data[0])):
        return data, None
    iterator = iter(data)
    for first in iterator:
        peeked, found = peek_schema(first) if _is_arrow(first) else (first, None)
        return chain((peeked,), iterator), found
    return (), None


def chunk_bytes(chunk: Chunk) -> int:
    """Return about how many bytes of memory a chunk takes."""
    if isinstance(chunk, list):
        return len(chunk) * BYTES_PER_CHUNK // ROWS_PER_CHUNK
    return chunk.nbytes


def is_rereadable(data: Any) -> bool:
    """Return whether data can be read a second time."""
    return isinstance(data, list | tuple | pa.Table | pa.RecordBatch)


def _unnamed(schema: pa.Schema) -> list[str]:
    return [name for name in schema.names if name.startswith("__index_level_")]


def _cleaned_schema(schema: pa.Schema, unnamed: Iterable[str] = ()) -> pa.Schema:
    """The schema as ``_cleaned`` leaves it."""
    for name in unnamed:
        schema = schema.remove(schema.get_field_index(name))
    metadata: Any = {k: v for k, v in (schema.metadata or {}).items() if k != b"pandas"} or None
    return schema.with_metadata(metadata)


def _is_arrow(data: Any) -> bool:
    # A class has the method too, without being data.
    return not isinstance(data, type) and (
        hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")
    )


def _batches(data: Any) -> Iterator[pa.RecordBatch]:
    """Return the batches of one Arrow-like object; at least one, empty if need be."""
    if isinstance(data, pa.RecordBatch):
        return iter((data,))
    if isinstance(data, pa.Table):
        return _read(data.to_reader(), [])
    if isinstance(data, pa.RecordBatchReader):
        return _read(data, [])
    reader = _foreign_reader(data)
    return _read(reader, _unnamed(reader.schema))


def _read(reader: pa.RecordBatchReader, unnamed: list[str]) -> Iterator[pa.RecordBatch]:
    # pandas describes itself in the schema's metadata, which would be wrong for a slice of it.
    metadata = {k: v for k, v in (reader.schema.metadata or {}).items() if k != b"pandas"}
    empty = True
    with reader:
        for batch in reader:
            empty = False
            yield _cleaned(batch, unnamed, metadata)
    if empty:
        yield _cleaned(pa.RecordBatch.from_pylist([], schema=reader.schema), unnamed, metadata)


def _cleaned(batch: pa.RecordBatch, unnamed: list[str], metadata: dict[bytes, bytes]) -> pa.RecordBatch:
    """Drop what pandas adds of its own: an index without a name, and its metadata."""
    if unnamed:
        batch = batch.drop_columns(unnamed)
    if batch.schema.metadata and b"pandas" in batch.schema.metadata:
        batch = batch.replace_schema_metadata(metadata or None)
    return batch


def _foreign_reader(data: Any) -> pa.RecordBatchReader:
    try:
        if hasattr(data, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(data)
        batch = pa.record_batch(data)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidOptionError(
            f"a {type(data).__name__} does not hold rows of named columns ({error}): {_WHAT_TO_PASS}"
        ) from error
    return pa.RecordBatchReader.from_batches(batch.schema, [batch])


def _sliced(batches: Iterator[pa.RecordBatch], most_rows: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows, size = batch.num_rows, batch.get_total_buffer_size()
        if size > BYTES_PER_CHUNK:
            # What a slice shares with others counts above and not here, where it takes longer to say.
            size = batch.nbytes
        step = min(most_rows, max(1, rows * BYTES_PER_CHUNK // size)) if size else most_rows
        if rows <= step:
            yield batch
            continue
        for start in range(0, rows, step):
            yield batch.slice(start, step)


def _from_iterable(data: Iterable[Any], rows_per_chunk: int | None) -> Iterator[Chunk]:
    iterator = iter(data)
    for first in iterator:
        if _is_arrow(first):
            yield from _sliced(_all_arrow(first, iterator), rows_per_chunk or _ARROW_ROWS_PER_CHUNK)
        else:
            yield from _listed(chain((first,), iterator), rows_per_chunk or ROWS_PER_CHUNK)


def _all_arrow(first: Any, rest: Iterator[Any]) -> Iterator[pa.RecordBatch]:
    yield from _batches(first)
    for item in rest:
        if not _is_arrow(item):
            raise InvalidOptionError(
                f"an iterable of Arrow data holds a {type(item).__name__}: "
                "give all of it as Arrow, or all as records"
            )
        yield from _batches(item)


def _listed(records: Iterator[Any], most_rows: int) -> Iterator[list[Any]]:
    chunk: list[Any] = []
    held, step = 0, _FIRST_SLICE
    known: set[type] = set()
    while part := list(islice(records, min(step, most_rows - len(chunk)))):
        if not known.issuperset(map(type, part)):
            _refuse_arrow(part)
            known.update(map(type, part))
        chunk += part
        sample = part[:: max(1, len(part) // _SAMPLES)]
        weight = 1 + sum(map(_weight, sample)) // len(sample)
        held += weight * len(part)
        # The next slice is sized by this one, so that a turn to fat records is noticed in time.
        step = min(_MAX_SLICE_ROWS, max(1, BYTES_PER_CHUNK // 8 // weight))
        if len(chunk) >= most_rows or held >= BYTES_PER_CHUNK:
            yield chunk
            # A new list: the consumer may keep the one it was given.
            chunk, held = [], 0
    if chunk:
        yield chunk


def _refuse_arrow(records: list[Any]) -> None:
    if any(map(_is_arrow, {type(record): record for record in records}.values())):
        raise InvalidOptionError(
            "an iterable of records holds Arrow data: give all of it as one or the other"
        )


def _weight(value: Any, depth: int = _DEPTH) -> int:
    """Estimate the bytes a record holds; long lists count by their first and last element."""
    size = sys.getsizeof(value, 64)
    if depth == 0 or type(value) in _LEAVES:
        return size
    match value:
        case dict():
            items = value.values()
            if _LEAVES.issuperset(map(type, items)):
                return size + sum(map(sys.getsizeof, items))
            return size + sum(_weight(item, depth - 1) for item in items)
        case list() | tuple():
            if value:
                size += (_weight(value[0], depth - 1) + _weight(value[-1], depth - 1)) * len(value) // 2
            return size
        case msgspec.Struct():
            return size + sum(_weight(getattr(value, name), depth - 1) for name in value.__struct_fields__)
    if is_dataclass(value):
        return size + sum(_weight(getattr(value, field.name, None), depth - 1) for field in fields(value))
    return size
