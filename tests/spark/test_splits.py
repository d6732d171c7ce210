"""How many tasks read a scan."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pyarrow as pa

import lode
from lode.spark.splits import Split, plan_splits

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
