"""One lake written by Go and by Python, in turn: what holds is listed in docs/understanding/with-go.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
import pytest

import lode
from lode.read.segment import encode_segment, list_segment
from tests.golden import golang

if TYPE_CHECKING:
    from pathlib import Path

FIRST, SECOND, THIRD = "1794769330000000001", "1794769330000000002", "1794769330000000003"


def events(root: Path, *keys: str) -> lode.Dataset:
    layout = lode.HiveLayout(*keys) if keys else lode.DefaultLayout()
    return lode.Dataset("events", root, codec="jsonl", layout=layout)


@pytest.mark.parametrize("keys", [(), ("k",)], ids=["default", "hive"])
def test_an_empty_write_of_go_is_a_snapshot_without_files(tmp_path: Path, keys: tuple[str, ...]) -> None:
    golang.write(tmp_path, FIRST, [{"k": "a", "n": 1}], keys=keys)
    golang.write(tmp_path, SECOND, [], parent=FIRST, keys=keys)
    dataset = events(tmp_path, *keys)
    assert [(snapshot.id, snapshot.row_count) for snapshot in dataset.snapshots()] == [
        (FIRST, 1),
        (SECOND, 0),
    ]
    assert dataset.read(SECOND) == []
    assert dataset.scan().read_all().to_pylist() == [{"k": "a", "n": 1}]
    third = dataset.write([{"k": "b", "n": 2}])
    assert (third.parent_id, third.sequence) == (SECOND, 3)
    assert lode.open_dataset("events", tmp_path).layout == dataset.layout
    assert lode.verify(dataset).ok


def test_a_segment_takes_in_an_empty_write_of_go(tmp_path: Path) -> None:
    parent, stored = None, []
    for number in range(16):
        snapshot_id = f"17947693300000000{number:02d}"
        golang.write(tmp_path, snapshot_id, [{"n": number}] if number % 2 else [], parent=parent)
        stored.append((tmp_path / f"datasets/events/snapshots/{snapshot_id}/manifest.json").read_bytes())
        parent = snapshot_id
    listing = list_segment(encode_segment(stored, 16), 16, 16)
    assert listing.files == [0, 1] * 8
    assert len(listing.paths) == 8
    dataset = events(tmp_path)
    dataset.write([{"n": 16}])
    assert [row["n"] for row in events(tmp_path).scan().read_all().to_pylist()] == [*range(1, 16, 2), 16]
