"""Lode for Go and Python write one lake in turns, as docs/understanding/with-go.md describes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
import pytest

import lode
from lode.format.paths import partition_path
from lode.read.resolve import Named
from lode.read.segment import encode_segment, list_segment
from lode.store import MemoryStore
from lode.write.rebase import common_partition
from support import golang

if TYPE_CHECKING:
    from pathlib import Path

    from support.real_go import GoProcess

FIRST, SECOND, THIRD = "1794769330000000001", "1794769330000000002", "1794769330000000003"


def events(root: Path, *keys: str) -> lode.Dataset:
    layout = lode.HiveLayout(*keys) if keys else lode.DefaultLayout()
    return lode.Dataset("events", root, codec="jsonl", layout=layout)


@pytest.mark.parametrize("keys", [(), ("k",)], ids=["default", "hive"])
def test_an_empty_write_of_go_is_a_snapshot_without_files(
    go: GoProcess, tmp_path: Path, keys: tuple[str, ...]
) -> None:
    theirs = go.dataset(tmp_path, keys=keys)
    first, second = theirs.write([{"k": "a", "n": 1}]), theirs.write([])
    dataset = events(tmp_path, *keys)
    assert [(snapshot.id, snapshot.row_count) for snapshot in dataset.snapshots()] == [
        (first, 1),
        (second, 0),
    ]
    assert dataset.read(second) == []
    assert dataset.scan().read_all().to_pylist() == [{"k": "a", "n": 1}]
    third = dataset.write([{"k": "b", "n": 2}])
    assert (third.parent_id, third.sequence) == (second, 3)
    assert lode.open_dataset("events", tmp_path).layout == dataset.layout
    assert lode.verify(dataset).ok


def test_a_segment_includes_an_empty_write_of_go(go: GoProcess, tmp_path: Path) -> None:
    theirs, stored = go.dataset(tmp_path), []
    for number in range(16):
        snapshot_id = theirs.write([{"n": number}] if number % 2 else [])
        stored.append((tmp_path / f"datasets/events/snapshots/{snapshot_id}/manifest.json").read_bytes())
    listing = list_segment(encode_segment(stored, 16), "events", 16, 16, Named(snapshot_id))
    assert listing.files == [0, 1] * 8
    assert len(listing.paths) == 8
    dataset = events(tmp_path)
    dataset.write([{"n": 16}])
    assert [row["n"] for row in events(tmp_path).scan().read_all().to_pylist()] == [*range(1, 16, 2), 16]


def test_a_null_key_of_go_is_found_as_null(go: GoProcess, tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"k": None, "n": 1}, {"k": "a", "n": 2}, {"k": "", "n": 3}]
    go.dataset(tmp_path, keys=["k"]).write(rows)
    scan = events(tmp_path, "k").scan
    assert scan(where=pc.field("k").is_null()).read_all().to_pylist() == [{"k": None, "n": 1}]
    assert scan(where=pc.field("k") == "").read_all().to_pylist() == [{"k": "", "n": 3}]
    assert scan(where=pc.field("k") == "a").read_all().to_pylist() == [{"k": "a", "n": 2}]


def test_a_text_like_gos_null_stays_text(go: GoProcess, tmp_path: Path) -> None:
    dataset = events(tmp_path, "k")
    dataset.write([{"k": "<nil>", "n": 1}, {"k": None, "n": 2}])
    go.dataset(tmp_path, keys=["k"]).write([{"k": None, "n": 3}])
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


def test_go_and_python_continue_each_others_history(go: GoProcess, tmp_path: Path) -> None:
    first = events(tmp_path).write([{"n": 1}])
    second = go.dataset(tmp_path).write([{"n": 2}])
    third = events(tmp_path).write([{"n": 3}])
    go.dataset(tmp_path).write([{"n": 4}])
    dataset = events(tmp_path)
    assert [snapshot.parent_id for snapshot in dataset.snapshots()] == [None, first.id, second, third.id]
    assert third.sequence == 3
    assert [row["n"] for row in dataset.scan().read_all().to_pylist()] == [1, 2, 3, 4]
    assert lode.verify(dataset).ok


@pytest.mark.parametrize("keys", [(), ("k",)], ids=["default", "hive"])
def test_go_finds_each_python_snapshot_once_and_nothing_else(
    go: GoProcess, tmp_path: Path, keys: tuple[str, ...]
) -> None:
    dataset = events(tmp_path, *keys)
    rows = [[{"k": f"{number}", "n": number}] for number in range(17)]
    ours = [dataset.write(each, idempotency_key=f"key {at}").id for at, each in enumerate(rows)]
    theirs = go.dataset(tmp_path, keys=keys)
    assert theirs.snapshots() == ours
    assert theirs.latest() == ours[-1]
    assert [theirs.read(id) for id in ours] == rows


def test_go_reads_removed_rows_in_the_snapshot_that_added_them(go: GoProcess, tmp_path: Path) -> None:
    dataset = events(tmp_path, "k")
    first = dataset.write([{"k": "a", "n": 1}, {"k": "b", "n": 2}])
    replaced = dataset.overwrite([{"k": "a", "n": 3}]).snapshot
    restored = dataset.restore(first).snapshot
    assert replaced is not None
    assert restored is not None
    theirs = go.dataset(tmp_path, keys=["k"])
    assert theirs.snapshots() == [first.id, replaced.id, restored.id]
    assert theirs.read(first.id) == [{"k": "a", "n": 1}, {"k": "b", "n": 2}]
    assert theirs.read(replaced.id) == [{"k": "a", "n": 3}]
    assert theirs.read(restored.id) == []


def test_a_snapshot_of_go_after_removals_keeps_them(go: GoProcess, tmp_path: Path) -> None:
    dataset = events(tmp_path, "k")
    dataset.write([{"k": "a", "n": 1}, {"k": "b", "n": 2}])
    dataset.overwrite([{"k": "a", "n": 3}])
    go.dataset(tmp_path, keys=["k"]).write([{"k": "b", "n": 4}])
    found = lode.open_dataset("events", tmp_path)
    assert sorted(row["n"] for row in found.scan().read_all().to_pylist()) == [2, 3, 4]
    found.delete("n = 2")
    assert sorted(row["n"] for row in found.scan().read_all().to_pylist()) == [3, 4]


def test_a_python_partition_has_a_copy_of_each_manifest(tmp_path: Path) -> None:
    snapshot = events(tmp_path, "k").write([{"k": "a/b", "n": 1}, {"k": None, "n": 2}])
    home = tmp_path / "datasets/events"
    manifest = (home / "segments" / snapshot.id / "manifest.json").read_bytes()
    for partition in ("k=a%2Fb", "k=__HIVE_DEFAULT_PARTITION__"):
        copy = home / "partitions" / partition / "segments" / snapshot.id / "manifest.json"
        assert copy.read_bytes() == manifest, "on a disk every copy is a link to the whole manifest"


def test_go_lists_every_partition_and_file_of_a_python_snapshot_on_an_object_store() -> None:
    """Without a partition Go reads the first manifest that a listing shows of each snapshot, a copy."""
    store = MemoryStore()
    dataset = lode.Dataset("events", store, codec="jsonl", layout=lode.HiveLayout("k"))
    written = [dataset.write([{"k": f"{number}"}, {"k": "b"}, {"k": "c"}]) for number in range(3)]
    first: dict[str, str] = {}
    for entry in store.list("datasets/events/partitions/"):
        if entry.path.endswith("/manifest.json"):
            first.setdefault(entry.path.split("/")[-2], entry.path)
    for snapshot in written:
        listed = json.loads(store.get(first[snapshot.id]))
        assert [file["path"] for file in listed["files"]] == [file.path for file in snapshot.files]
        assert listed["row_count"] == snapshot.row_count
    # With a partition it gets that partition's copy, which has Go's keys in Go's order too.
    copy = json.loads(store.get(f"datasets/events/partitions/k=c/segments/{written[0].id}/manifest.json"))
    assert [file["path"].split("/")[3] for file in copy["files"]] == ["k=c"]
    whole = json.loads(store.get(f"datasets/events/segments/{written[0].id}/manifest.json"))
    assert list(copy) == list(whole)


def test_an_unfinished_go_snapshot_is_invisible_and_hides_nothing(tmp_path: Path) -> None:
    golang.write(tmp_path, FIRST, [{"n": 1}])
    for step in ("files", "pointer"):
        golang.write(tmp_path, SECOND, [{"n": 2}], parent=FIRST, upto=step)
        assert [snapshot.id for snapshot in events(tmp_path).snapshots()] == [FIRST]
    golang.write(tmp_path, SECOND, [{"n": 2}], parent=FIRST)
    assert [snapshot.id for snapshot in events(tmp_path).snapshots()] == [FIRST, SECOND]


def test_verify_reports_the_snapshot_lost_in_a_race_with_go(tmp_path: Path) -> None:
    golang.write(tmp_path, FIRST, [{"n": 1}])
    golang.write(tmp_path, SECOND, [{"n": 2}], parent=FIRST)
    golang.write(tmp_path, THIRD, [{"n": 3}], parent=FIRST)
    dataset = events(tmp_path)
    assert [snapshot.id for snapshot in dataset.snapshots()] == [FIRST, THIRD]
    report = lode.verify(dataset)
    assert [problem.kind for problem in report.problems] == ["fork"]
    assert SECOND in str(report.problems[0])
