"""ORC files that become much more; written by Arrow, as their runs and codecs suffice."""

from __future__ import annotations

import io
from typing import Any, Final

import pyarrow as pa
import pyarrow.orc as orc

_CODEC: Final = "ZSTD"


def _written(*tables: Any, **options: Any) -> bytes:
    out = io.BytesIO()
    with orc.ORCWriter(out, compression=_CODEC, **options) as writer:
        for table in tables:
            writer.write(table)
    return out.getvalue()


def repeated_value(size: int = 200_000, count: int = 30_000) -> bytes:
    """A text of 200 kB that is 30,000 rows: one entry of a dictionary, and a run."""
    piece = pa.table({"x": pa.array(["x" * size] * 1_000)})
    return _written(*[piece] * (count // 1_000), dictionary_key_size_threshold=1.0)


def constant_numbers(count: int = 100_000_000) -> bytes:
    """A hundred million equal numbers, in runs."""
    piece = pa.table({"x": pa.nulls(1_000_000, pa.int64()).fill_null(7)})
    return _written(*[piece] * (count // 1_000_000))


def nulls_in_lists(rows: int = 20, count: int = 3_000_000) -> bytes:
    """Twenty rows, each with a list of three million nulls."""
    offsets = pa.array([0, count], pa.int32())
    piece = pa.table({"x": pa.ListArray.from_arrays(offsets, pa.nulls(count, pa.int64()))})
    return _written(*[piece] * rows)


def many_columns(count: int = 20_000) -> bytes:
    """20,000 columns of one row."""
    return _written(pa.table({f"c{number}": pa.array([1]) for number in range(count)}))


def deep_columns(depth: int = 200) -> bytes:
    """A column that is nested in 200 records."""
    kind: Any = pa.int64()
    for _ in range(depth):
        kind = pa.struct([("g", kind)])
    return _written(pa.table({"x": pa.nulls(1, kind)}))


def damaged_lengths() -> bytes:
    """A file whose last kilobyte, with all lengths, is overwritten by large numbers."""
    good = _written(pa.table({"x": pa.array(range(1_000))}))
    return good[:-300] + b"\xff" * 280 + good[-20:]
