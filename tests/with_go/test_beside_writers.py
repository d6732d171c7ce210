"""Lode for Go writes while Python reads and writes the same dataset."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import lode
from lode.errors import SnapshotConflictError
from lode.runtime import Runtime
from lode.store import LocalStore
from support import golang
from support.real_go import GoError

if TYPE_CHECKING:
    from pathlib import Path

    from support.real_go import GoProcess

WRITES = 150
# A reader meets a manifest that is half written, or a listing that changes, in about one of 40 writes.
MANY = 2000
UNFINISHED = "1999999999999999999"


def test_a_reader_beside_a_writer_of_go_sees_every_state_and_no_error(go: GoProcess, tmp_path: Path) -> None:
    """Go's put is not atomic, and its pointer names a snapshot before that is there."""
    theirs = go.dataset(tmp_path)
    theirs.write([{"go": -1}])
    seen: list[str] = []

    def watch() -> None:
        while not ended.is_set():
            seen.append(lode.Dataset("events", tmp_path).latest().id)

    ended = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        watching = pool.submit(watch)
        with theirs.writing(MANY) as done:
            pass
        ended.set()
        watching.result()
    assert len(done["written"]) == MANY
    assert seen == sorted(seen)
    assert len(lode.Dataset("events", tmp_path).snapshots()) == MANY + 1


def test_writers_of_both_lose_no_acknowledged_write(go: GoProcess, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    dataset = lode.Dataset.create("events", lake, codec="jsonl", shared_with_go=True)
    ours: list[str] = []
    with go.dataset(lake, retries=5).writing(WRITES) as done:
        for number in range(WRITES):
            try:
                ours.append(dataset.write([{"python": number}], on_conflict="append").id)
            except SnapshotConflictError:
                continue
    found = lode.open_dataset("events", lake)
    history = [snapshot.id for snapshot in found.snapshots()]
    assert set(ours) | set(done["written"]) == set(history[1:])
    assert len(history) == 1 + len(ours) + len(done["written"])
    assert done["refused"].keys() <= {"conflict"}
    assert len(ours) == WRITES
    assert lode.verify(found).ok
    assert sorted(row["go"] for row in rows(found) if row.get("go") is not None) == sorted(
        done["written"].values()
    )


def rows(dataset: lode.Dataset) -> list[dict[str, Any]]:
    return [row for snapshot in dataset.snapshots() for row in dataset.read(snapshot)]


def test_go_gets_a_conflict_while_python_commits(go: GoProcess, tmp_path: Path) -> None:
    dataset = lode.Dataset.create("events", tmp_path, codec="jsonl", shared_with_go=True)
    newest = dataset.write([{"n": 1}])
    pointer = tmp_path / "datasets/events/latest"
    assert pointer.read_text() == newest.id
    pointer.write_text(f"{newest.id}~closed\n")
    theirs = go.dataset(tmp_path)
    assert theirs.latest() == newest.id
    with pytest.raises(GoError) as refused:
        theirs.write([{"n": 2}])
    assert refused.value.kind == "conflict"
    assert pointer.read_text() == f"{newest.id}~closed\n"
    # The next writer of Python opens it.
    after = lode.Dataset("events", tmp_path).write([{"n": 3}])
    assert after.parent_id == newest.id
    assert go.dataset(tmp_path).write([{"n": 4}]) == lode.Dataset("events", tmp_path).latest().id


def test_a_snapshot_that_go_left_unfinished_is_ended_as_an_empty_one(go: GoProcess, tmp_path: Path) -> None:
    first = go.dataset(tmp_path).write([{"n": 1}])
    golang.write(tmp_path, UNFINISHED, [{"n": 2}], parent=first, upto="pointer")
    later = Runtime(now_ns=lambda: 2 * 10**18)
    third = lode.Dataset("events", tmp_path, runtime=later).write([{"n": 3}])
    dataset = lode.open_dataset("events", tmp_path)
    assert [snapshot.id for snapshot in dataset.snapshots()] == [first, UNFINISHED, third.id]
    assert (third.parent_id, third.sequence) == (UNFINISHED, 3)
    assert rows(dataset) == [{"n": 1}, {"n": 3}]
    assert lode.verify(dataset, runtime=later).ok
    theirs = go.dataset(tmp_path)
    assert set(theirs.snapshots()) == {first, UNFINISHED, third.id}
    assert theirs.read(UNFINISHED) == []
    with pytest.raises(lode.LodeError):
        # What Go's writer would do if it were only late: put its manifest, which must not be there.
        LocalStore(tmp_path).put(f"datasets/events/snapshots/{UNFINISHED}/manifest.json", b"{}")


def test_a_block_that_go_left_unfinished_is_ended_without_it(go: GoProcess, tmp_path: Path) -> None:
    first = go.volume(tmp_path, length=100).commit(0, b"abc")
    (tmp_path / "volumes/disk/latest").write_text(UNFINISHED)
    later = Runtime(now_ns=lambda: 2 * 10**18)
    volume = lode.Volume("disk", tmp_path, 100, runtime=later)
    third = volume.commit([volume.stage_write_at(3, b"def")])
    assert [snapshot.id for snapshot in volume.snapshots()] == [first, UNFINISHED, third.id]
    assert volume.read_at(third, 0, 6) == b"abcdef"
    assert go.volume(tmp_path, length=100).read_at(UNFINISHED, 0, 3) == b"abc"
    assert go.volume(tmp_path, length=100).read_at(third.id, 0, 6) == b"abcdef"


def test_a_manifest_that_go_has_begun_is_not_there_yet(go: GoProcess, tmp_path: Path) -> None:
    theirs = go.dataset(tmp_path)
    first, second = theirs.write([{"n": 1}]), theirs.write([{"n": 2}])
    path = tmp_path / f"datasets/events/snapshots/{second}/manifest.json"
    whole = path.read_bytes()
    for size in (0, 1, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        assert lode.Dataset("events", tmp_path).latest().id == first
        assert [snapshot.id for snapshot in lode.Dataset("events", tmp_path).snapshots()] == [first]
    path.write_bytes(whole)
    assert lode.Dataset("events", tmp_path).latest().id == second


def test_a_manifest_that_stays_cut_off_is_damaged(go: GoProcess, tmp_path: Path) -> None:
    theirs = go.dataset(tmp_path)
    theirs.write([{"n": 1}])
    second = theirs.write([{"n": 2}])
    path = tmp_path / f"datasets/events/snapshots/{second}/manifest.json"
    path.write_bytes(path.read_bytes()[:100])
    before = path.stat().st_mtime - timedelta(seconds=10).total_seconds()
    os.utime(path, (before, before))
    with pytest.raises(lode.ManifestInvalidError):
        lode.Dataset("events", tmp_path).latest()


def test_two_writers_of_go_can_fork_and_python_says_so(go: GoProcess, tmp_path: Path) -> None:
    first = go.dataset(tmp_path).write([{"n": 1}])
    # Two writers of Go, of which each found the other in the middle of a commit.
    golang.write(tmp_path, "1999999999999999997", [{"n": 2}], parent=first)
    golang.write(tmp_path, "1999999999999999998", [{"n": 3}], parent=first)
    golang.write(tmp_path, UNFINISHED, [{"n": 4}], parent=first, upto="pointer")
    with pytest.raises(lode.HistoryForkedError):
        lode.Dataset("events", tmp_path).latest()


def test_go_sees_the_snapshot_that_drops_a_dataset(go: GoProcess, tmp_path: Path) -> None:
    dataset = lode.Dataset.create("events", tmp_path, codec="jsonl", shared_with_go=True)
    dataset.write([{"n": 1}])
    dataset.drop()
    newest = go.dataset(tmp_path).latest()
    assert newest.endswith("-drop")
    assert go.dataset(tmp_path).read(newest) == []
