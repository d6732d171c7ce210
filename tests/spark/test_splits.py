"""How many tasks read a scan."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pyarrow as pa

import lode
from lode.spark.splits import PieceReader, Split, plan_splits

if TYPE_CHECKING:
    from pathlib import Path


def dataset_of(path: Path, files: int, size: int) -> lode.Dataset:
    """Files of about so many bytes."""
    dataset = lode.Dataset("d", str(path), codec=lode.Parquet())
    for _ in range(files):
        dataset.write(pa.table({"x": [os.urandom(1 << 16) for _ in range(size >> 16)] or [b"x"]}))
    return dataset


def splits_of(dataset: lode.Dataset, split_bytes: int = 0) -> list[Split]:
    return plan_splits(dataset.plan(), split_bytes=split_bytes, splittable=True)


def test_a_small_scan_has_several_tasks_and_no_file_of_it_is_cut(tmp_path: Path) -> None:
    dataset = dataset_of(tmp_path, 2, 6 << 20)
    assert [len(split.pieces) for split in splits_of(dataset)] == [1, 1]
    assert [len(split.pieces) for split in splits_of(dataset, 16 << 20)] == [2]
    assert len(splits_of(dataset, 2 << 20)) == 6


def test_many_tiny_files_are_read_by_few_tasks(tmp_path: Path) -> None:
    assert len(splits_of(dataset_of(tmp_path / "few", 12, 0))) == 1
    assert 2 <= len(splits_of(dataset_of(tmp_path / "many", 160, 0))) <= 4


def test_every_byte_of_a_large_file_is_in_one_task(tmp_path: Path) -> None:
    dataset = dataset_of(tmp_path, 1, 40 << 20)
    (file,) = dataset.plan().files
    pieces = [piece for split in splits_of(dataset) for piece in split.pieces]
    assert len(pieces) > 1
    ends = [0, *(piece.stop for piece in pieces)]
    assert [piece.start for piece in pieces] == ends[:-1]
    assert ends[-1] == file.size_bytes


def test_rows_of_small_files_come_in_joined_batches_of_at_most_the_wanted_rows(tmp_path: Path) -> None:
    dataset = lode.Dataset("d", str(tmp_path), codec=lode.Parquet({"n": "int64"}))
    for first in (0, 30, 60):
        dataset.write(pa.table({"n": list(range(first, first + 30))}))
    scan = dataset.plan()
    (split,) = splits_of(dataset)
    for most, sizes in ((1000, [90]), (40, [40, 40, 10])):
        reader = PieceReader(scan.store, scan.components, pa.schema({"n": pa.int64()}), batch_rows=most)
        batches = list(reader.read(split.pieces))
        assert [batch.num_rows for batch in batches] == sizes
        assert [n for batch in batches for n in batch.column(0).to_pylist()] == list(range(90))
