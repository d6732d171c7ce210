"""One lake written by Go and by Python, in turn: what holds is listed in docs/understanding/with-go.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
import pytest

import lode
from golden import golang
from lode.format.paths import partition_path
from lode.read.segment import encode_segment, list_segment
from lode.write.rebase import common_partition

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


def test_a_null_key_of_go_is_found_as_null(tmp_path: Path) -> None:
    golang.write(tmp_path, FIRST, [{"k": None, "n": 1}, {"k": "a", "n": 2}, {"k": "", "n": 3}], keys=["k"])
    scan = events(tmp_path, "k").scan
    assert scan(where=pc.field("k").is_null()).read_all().to_pylist() == [{"k": None, "n": 1}]
    assert scan(where=pc.field("k") == "").read_all().to_pylist() == [{"k": "", "n": 3}]
    assert scan(where=pc.field("k") == "a").read_all().to_pylist() == [{"k": "a", "n": 2}]


def test_a_text_like_gos_null_is_still_that_text(tmp_path: Path) -> None:
    dataset = events(tmp_path, "k")
    dataset.write([{"k": "<nil>", "n": 1}, {"k": None, "n": 2}])
    golang.write(tmp_path, THIRD, [{"k": None, "n": 3}], parent=dataset.latest().id, keys=["k"])
    scan = events(tmp_path, "k").scan
    assert scan(where=pc.field("k") == "<nil>").read_all().to_pylist() == [{"k": "<nil>", "n": 1}]
    assert [row["n"] for row in scan(where=pc.field("k").is_null()).read_all().to_pylist()] == [2, 3]


def test_a_time_of_go_is_found_in_the_partition_of_its_day(tmp_path: Path) -> None:
    """Go has a time's day in the path and the whole time, as text, in the row."""
    golang.write(tmp_path, FIRST, [{"k": "2026-01-02", "n": 1}, {"k": "2026-01-03", "n": 2}], keys=["k"])
    for file in tmp_path.rglob("data/data"):
        file.write_bytes(file.read_bytes().replace(b'"k":"2026-01-02"', b'"k":"2026-01-02T10:00:00Z"'))
    manifest = tmp_path / f"datasets/events/segments/{FIRST}/manifest.json"
    manifest.write_text(manifest.read_text().replace('"size_bytes": 25', '"size_bytes": 35', 1))
    scan = events(tmp_path, "k").scan
    at = "2026-01-02T10:00:00Z"
    assert scan(where=pc.field("k") == at).read_all().to_pylist() == [{"k": at, "n": 1}]
    assert scan(where=pc.field("k") == "2026-01-03").read_all().to_pylist() == [{"k": "2026-01-03", "n": 2}]


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (1234567.0, 1234567.0),
        (1234567, 1234567.0),
        (-2500000.0, -2500000.0),
        (1234567.5, 1234567.5),
        (1e20, 1e20),
        (1e21, 1e21),
        (10**21, 1e21),
        (-0.0, -0.0),
        (0, -0.0),
        (None, None),
        ("", ""),
        ("é", "é"),
        (True, True),
    ],
)
def test_go_and_python_overlap_in_the_same_value(ours: Any, theirs: Any) -> None:
    assert common_partition(*partitions(ours, theirs)) == f"partition {partition_path(['k'], [ours])}"


@pytest.mark.parametrize(("ours", "theirs"), [(1234567.0, 1234568.0), ("é", "e\u0301"), ("1.10", 1.1)])
def test_go_and_python_do_not_overlap_in_different_values(ours: Any, theirs: Any) -> None:
    assert common_partition(*partitions(ours, theirs)) is None


def partitions(ours: Any, theirs: Any) -> tuple[set[str], set[str]]:
    return {partition_path(["k"], [ours])}, {golang.partition(["k"], {"k": theirs})}
