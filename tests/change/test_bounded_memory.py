"""Rewriting takes bounded memory, whatever the size of the files and of the dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

import lode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

MIB = 1 << 20
ROWS = 150_000
SCHEMA = dict.fromkeys(("id", "bucket", *(f"value{number}" for number in range(10))), "int64")
# Two files at a time, each with a row group that is encoded, one that is read ahead, one whose keys are
# looked up, and what is being made of it. The dataset has 14 and 55 MiB.
ALLOWED = 16 * MIB


@pytest.fixture(autouse=True)
def smaller_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is held on purpose, in proportion to these files."""
    monkeypatch.setattr("lode.write.parallel.MAX_AHEAD_BYTES", MIB)
    monkeypatch.setattr("lode.write.parallel.MIN_AHEAD_BYTES", MIB)
    monkeypatch.setattr("lode.change.keys._LOOKUP_BYTES", MIB)
    monkeypatch.setattr("lode.codec.parquet._ROWS_PER_READ", 4_096)


def batches(first: int, count: int) -> Iterator[pa.RecordBatch]:
    chance = np.random.default_rng(1)
    for start in range(first, first + count, 10_000):
        ids = np.arange(start, min(start + 10_000, first + count))
        values = [chance.integers(0, 1 << 60, len(ids)) for _ in range(len(SCHEMA) - 2)]
        yield pa.record_batch([pa.array(each) for each in (ids, ids % 1000, *values)], names=list(SCHEMA))


def source() -> pa.Table:
    """Rows of one bucket, whose keys are spread over the dataset."""
    table = pa.Table.from_batches(batches(0, 1_000))
    return table.set_column(0, "id", pa.array(np.arange(1_000) * 100)).set_column(
        1, "bucket", pa.array(np.full(1_000, 5))
    )


CHANGES: dict[str, Callable[[lode.Dataset], object]] = {
    "delete": lambda dataset: dataset.delete("bucket = 7"),
    "overwrite": lambda dataset: dataset.overwrite(source(), where="bucket = 5"),
    "merge": lambda dataset: dataset.merge(source(), on=["id"]),
    "compact": lambda dataset: dataset.compact(target_file_bytes=1 << 30),
}


def written(folder: Path, count: int) -> lode.Dataset:
    """Two files of many row groups."""
    codec = lode.Parquet(SCHEMA, row_group_bytes=MIB, compression="none", dictionary=False)
    dataset = lode.Dataset("d", folder, codec=codec, store_options={"durable": False})
    for first in (0, count // 2):
        with dataset.transaction() as transaction:
            rows = batches(first, count // 2)
            transaction.add(transaction.stager.write_records(rows, serial=True))
            transaction.commit()
    return dataset


def peak(dataset: lode.Dataset, change: Callable[[lode.Dataset], object]) -> int:
    """The most bytes that pyarrow held at a time during the change."""
    before = pa.default_memory_pool()
    counted = pa.proxy_memory_pool(before)
    pa.set_memory_pool(counted)
    try:
        change(dataset)
    finally:
        pa.set_memory_pool(before)
    return int(counted.max_memory() or 0)


@pytest.mark.parametrize("how", CHANGES)
def test_four_times_the_rows_need_no_more_memory_than_is_allowed(tmp_path: Path, how: str) -> None:
    for count in (ROWS, 4 * ROWS):
        dataset = written(tmp_path / str(count), count)
        held = peak(dataset, CHANGES[how])
        assert MIB < held < ALLOWED, f"{how} of {count} rows"
