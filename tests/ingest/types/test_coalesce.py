"""Small batches become fewer, with the same rows in the same order."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from lode.ingest.types.arrays import coalesce

MEGABYTE = 1 << 20


def batch(start: int, rows: int) -> pa.RecordBatch:
    return pa.record_batch({"id": pa.array(range(start, start + rows), pa.int64())})


def ids(batches: list[pa.RecordBatch]) -> list[Any]:
    return [value for each in batches for value in each.column("id").to_pylist()]


def test_small_batches_become_one() -> None:
    made = list(coalesce(batch(start, 10) for start in range(0, 100, 10)))
    assert len(made) == 1
    assert ids(made) == list(range(100))


def test_what_is_joined_stays_small() -> None:
    rows = MEGABYTE // 8 // 4
    made = list(coalesce(batch(number * rows, rows) for number in range(10)))
    assert [each.num_rows for each in made] == [4 * rows, 4 * rows, 2 * rows]
    assert ids(made) == list(range(10 * rows))


def test_a_large_batch_is_passed_on_as_it_is_and_in_its_place() -> None:
    large = batch(1, MEGABYTE)
    made = list(coalesce([batch(0, 1), large, batch(1 + MEGABYTE, 1)]))
    assert made[1] is large
    assert ids(made) == list(range(MEGABYTE + 2))


def test_nothing_stays_nothing() -> None:
    assert list(coalesce([])) == []
