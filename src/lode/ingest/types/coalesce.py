"""Small batches made into fewer: what an encoder does for each batch costs more than copying its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lode.lazy import pa

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# Copying this much takes less time than an encoder's turn, and memory does not notice it.
_SMALL: Final = 1 << 20


def joined(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in the same order and schema; large batches are passed on as they are."""
    small: list[pa.RecordBatch] = []
    held = 0
    for batch in batches:
        weight = batch.get_total_buffer_size()
        if small and held + weight > _SMALL:
            yield one_batch(small)
            small, held = [], 0
        small.append(batch)
        held += weight
    if small:
        yield one_batch(small)


def one_batch(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """At least one batch as one; copied only if there are more."""
    arrow: Any = pa  # whose stubs do not know the function
    joined: pa.RecordBatch = batches[0] if len(batches) == 1 else arrow.concat_batches(batches)
    return joined
