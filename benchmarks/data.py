"""The rows every contender writes: an id, a time, two texts that repeat, a measure, a small number."""

from __future__ import annotations

import importlib
from typing import Any

import pyarrow as pa

_FIELDS: list[tuple[str, pa.DataType]] = [
    ("id", pa.int64()),
    ("at", pa.timestamp("us")),
    ("kind", pa.string()),
    ("place", pa.string()),
    ("value", pa.float64()),
    ("count", pa.int32()),
]
SCHEMA = pa.schema(_FIELDS)
# The last two say which writer a row is from, by whose partition it is in, and which of its commits.
PARTITIONED = pa.schema([*SCHEMA, pa.field("part", pa.string()), pa.field("commit", pa.int64())])

_KINDS = [f"kind-{number}" for number in range(8)]
_PLACES = [f"place-{number:04d}" for number in range(500)]


def rows(count: int, *, seed: int = 0) -> pa.Table:
    """A table of ``count`` rows of ``SCHEMA``, the same for the same seed."""
    numpy: Any = importlib.import_module("numpy")
    chance = numpy.random.default_rng(seed)
    arrays: list[Any] = [
        numpy.arange(count, dtype="int64") + seed * count,
        pa.array(1_700_000_000_000_000 + numpy.arange(count, dtype="int64") * 1000).cast(pa.timestamp("us")),
        pa.array(_KINDS).take(pa.array(chance.integers(0, len(_KINDS), count))),
        pa.array(_PLACES).take(pa.array(chance.integers(0, len(_PLACES), count))),
        chance.normal(size=count),
        chance.integers(0, 1000, count, dtype="int32"),
    ]
    return pa.table([pa.array(array) for array in arrays], schema=SCHEMA)


def rows_of_commit(plain: pa.Table, part: str, commit: int) -> pa.Table:
    """The same with two more columns that say which partition all of them belong to, and which commit."""
    marked = plain.append_column(PARTITIONED.field("part"), pa.array([part] * plain.num_rows, pa.string()))
    return marked.append_column(PARTITIONED.field("commit"), pa.array([commit] * plain.num_rows, pa.int64()))
