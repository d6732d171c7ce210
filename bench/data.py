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
PARTITIONED = pa.schema([*SCHEMA, pa.field("part", pa.string())])

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


def rows_of_part(count: int, part: str) -> pa.Table:
    """The same with a last column that says which partition all of them belong to."""
    return rows(count).append_column(PARTITIONED.field("part"), pa.array([part] * count, pa.string()))
