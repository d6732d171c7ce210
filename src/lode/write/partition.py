"""Split chunks of records into partitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lode.errors import SchemaViolationError
from lode.format.paths import partition_path
from lode.lazy import pa

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lode.codec.protocol import Chunk


def split(
    chunk: Chunk, keys: Sequence[str], observe: Callable[[str, Sequence[Any]], None] = lambda *_: None
) -> Iterator[tuple[str, Chunk]]:
    """Yield (partition, rows) with the rows of each partition in their order; a null key has its own.

    Args:
        chunk: The rows.
        keys: The partition keys.
        observe: Called with each partition and its values; several times if one path has several values.
    """
    if isinstance(chunk, list):
        yield from _split_records(chunk, keys, observe)
    elif chunk.num_rows:
        yield from _split_batch(chunk, keys, observe)


def _split_records(
    records: list[Any], keys: Sequence[str], observe: Callable[[str, Sequence[Any]], None]
) -> Iterator[tuple[str, Chunk]]:
    # Grouped by the rendered path, not by the values: 1 and 1.0 and True are equal, their paths are not.
    groups: dict[str, list[Any]] = {}
    seen: set[tuple[Any, ...]] = set()
    for record in records:
        values = [_value(record, key) for key in keys]
        path = partition_path(keys, values)
        # With their types, for the same reason. What has a path can be hashed.
        known = (path, *values, *map(type, values))
        if known not in seen:
            seen.add(known)
            observe(path, values)
        groups.setdefault(path, []).append(record)
    yield from groups.items()


def _value(record: Any, key: str) -> Any:
    """Return the value of a key. A null is a value; a missing column is an error."""
    try:
        return record[key] if isinstance(record, Mapping) else getattr(record, key)
    except (KeyError, AttributeError):
        raise _missing(key) from None


def _missing(key: str) -> SchemaViolationError:
    return SchemaViolationError(
        f"the data has no column {key!r}, by which the dataset is partitioned: add it; it may be null",
        column=key,
    )


def _split_batch(
    batch: pa.RecordBatch, keys: Sequence[str], observe: Callable[[str, Sequence[Any]], None]
) -> Iterator[tuple[str, Chunk]]:
    import pyarrow.compute as pc

    for key in keys:
        if key not in batch.schema.names:
            raise _missing(key)
    compute: Any = pc  # the stubs know neither run_end_encode nor what dictionary_encode returns
    values = [_by_day(batch.column(key)) for key in keys]
    codes: Any = pa.scalar(0, pa.int64())
    for value in values:
        column = compute.dictionary_encode(value, null_encoding="encode")
        codes = compute.add(
            compute.multiply(codes, max(len(column.dictionary), 1)), compute.cast(column.indices, pa.int64())
        )
    order = compute.sort_indices(codes)
    runs = compute.run_end_encode(codes.take(order))
    if len(runs.values) > 1:
        batch = batch.take(order)
    start = 0
    for end in runs.run_ends.to_pylist():
        first = order[start].as_py()
        found = [value[first].as_py() for value in values]
        path = partition_path(keys, found)
        observe(path, found)
        yield path, batch.slice(start, end - start)
        start = end


def _by_day(column: Any) -> Any:
    """Return the day of a timestamp, in its own zone; any other value unchanged."""
    import pyarrow.compute as pc

    if not pa.types.is_timestamp(column.type):
        return column
    return pc.cast(pc.local_timestamp(column) if column.type.tz else column, pa.date32(), safe=False)
