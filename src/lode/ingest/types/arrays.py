"""Helpers for Arrow arrays and batches: missing values, REQUIRED fields below null, coalesced batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lode.ingest.status import invalid
from lode.ingest.types.columns import arrow_field
from lode.lazy import pa, pc, pt

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lode.ingest.types.columns import Column

# Missing columns take memory although the request did not send them.
MAX_FILLED_VALUES: Final = 1 << 25
# Copying this much is faster than encoding one more batch.
_SMALL_BYTES: Final = 1 << 20


def missing(column: Column, count: int) -> pa.Array[Any]:
    """The values of a column that was not sent: nulls, or empty lists where it is REPEATED."""
    kind: Any = arrow_field(column).type
    if column.mode == "REPEATED":
        offsets = pa.repeat(pa.scalar(0, pa.int32()), count + 1)
        empty: pa.Array[Any] = pa.ListArray.from_arrays(offsets, pa.nulls(0, kind.value_type), type=kind)
        return empty
    if not column.children:
        nulls: pa.Array[Any] = pa.nulls(count, kind)
        return nulls
    below = [
        without_validity(values) if child.mode == "REQUIRED" else values
        for child, values in ((child, missing(child, count)) for child in column.children)
    ]
    mask: Any = pa.repeat(pa.scalar(True), count)
    structs: pa.Array[Any] = pa.StructArray.from_arrays(below, fields=list(kind), mask=mask)
    return structs


def check_affordable(values: int, path: str) -> None:
    """Refuse a request that leaves out more values than may be filled in."""
    if values > MAX_FILLED_VALUES:
        raise invalid(
            f"The request leaves out {values} values of {path}: send fewer rows in one request, "
            f"at most {MAX_FILLED_VALUES} values may be missing."
        )


def with_nulls(array: pa.Array[Any], positions: list[int]) -> pa.Array[Any]:
    """The array with nulls at these positions."""
    if pt.is_string_view(array.type) or pt.is_binary_view(array.type):
        # Arrow cannot take from views. The request is refused anyway, so the other values are not needed.
        return pa.nulls(len(array), array.type)
    refused = set(positions)
    kept = [None if index in refused else index for index in range(len(array))]
    return array.take(pa.array(kept, pa.int64()))


def without_validity(array: Any) -> Any:
    """The array with no nulls: the bytes under each null become its value.

    For REQUIRED fields of a STRUCT that is null. Parquet accepts no null there, and readers see the STRUCT's
    own null first, so the value is never read.
    """
    if not array.null_count:
        return array
    if pt.is_struct(array.type):
        below = [array.field(position) for position in range(array.type.num_fields)]
        return pa.StructArray.from_arrays(below, fields=list(array.type))
    return pa.Array.from_buffers(
        array.type, len(array), [None, *array.buffers()[1:]], null_count=0, offset=array.offset
    )


def has_required(kind: Any) -> bool:
    """Return whether values of this type have a REQUIRED field inside."""
    if pt.is_struct(kind):
        return any(not member.nullable or has_required(member.type) for member in kind)
    return pt.is_list(kind) and has_required(kind.value_type)


def without_inner_nulls(array: Any) -> Any:
    """The same values without nulls in REQUIRED fields, to any depth.

    Nulls in STRUCTs that are not null were refused before.
    """
    kind = array.type
    if not has_required(kind):
        return array
    if pt.is_list(kind):
        return pa.ListArray.from_arrays(array.offsets, without_inner_nulls(array.values), type=kind)
    members = []
    for position, member in enumerate(kind):
        child = without_inner_nulls(array.field(position))
        members.append(child if member.nullable else without_validity(child))
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(members, fields=list(kind), mask=mask)


def list_array(lists: Any, values: pa.Array[Any], kind: Any = None) -> Any:
    """Lists of the same lengths over flattened values; null lists become empty ones."""
    lengths: Any = pc.cast(pc.fill_null(pc.list_value_length(lists), pa.scalar(0, pa.int32())), pa.int32())
    first = pa.array([0], pa.int32())
    offsets: Any = pa.concat_arrays([first, pc.cumulative_sum(lengths)])
    return pa.ListArray.from_arrays(offsets, values, type=kind)


def coalesce(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in the same order in fewer batches; large batches are passed on as they are."""
    small: list[pa.RecordBatch] = []
    held = 0
    for batch in batches:
        size = batch.get_total_buffer_size()
        if small and held + size > _SMALL_BYTES:
            yield one_batch(small)
            small, held = [], 0
        small.append(batch)
        held += size
    if small:
        yield one_batch(small)


def one_batch(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """One batch of all rows; a single batch is not copied."""
    arrow: Any = pa  # its stubs lack the function
    whole: pa.RecordBatch = batches[0] if len(batches) == 1 else arrow.concat_batches(batches)
    return whole
