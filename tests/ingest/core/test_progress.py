"""The progress of streams is in the snapshots; the checkpoint only limits how many are read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import lode
from lode.ingest.core.progress import METADATA, StreamProgress
from lode.store.memory import MemoryStore
from lode.store.wrappers import CountingStore, Fault, FaultStore, SimulatedCrash

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime.now(UTC)


@pytest.fixture
def store() -> CountingStore:
    return CountingStore(MemoryStore())


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "progress.json"


def opened(store: lode.Store) -> lode.Dataset:
    return lode.Dataset("d", store)


def commit(dataset: lode.Dataset, **streams: Any) -> lode.Snapshot:
    return dataset.write(b"rows", {METADATA: {"streams": streams}})


def recovered(file: Path, dataset: lode.Dataset, **created: datetime) -> StreamProgress:
    progress = StreamProgress(file)
    progress.recover(dataset, created)
    return progress


def reads_to_recover(file: Path, store: CountingStore, **created: datetime) -> int:
    # A separate counter: the writers' housekeeping may still be running.
    counted = CountingStore(store)
    recovered(file, opened(counted), **created)
    return counted.total


def test_progress_is_found_without_a_checkpoint(file: Path, store: CountingStore) -> None:
    dataset = opened(store)
    commit(dataset, a=3)
    middle = commit(dataset, a=5, b=2)
    newest = commit(dataset, b=4)
    progress = recovered(file, dataset, a=NOW, b=NOW, c=NOW)
    assert (progress.rows("a"), progress.rows("b"), progress.rows("c")) == (5, 4, 0)
    visible = progress.visible("a")
    assert visible is not None
    assert visible.at == middle.created_at
    assert progress.visible("c") is None
    assert progress.head == newest.id


def test_an_empty_table_has_no_progress(file: Path, store: CountingStore) -> None:
    progress = recovered(file, opened(store), a=NOW)
    assert progress.rows("a") == 0
    assert progress.head is None


def test_recovery_reads_the_snapshots_after_the_checkpoint(file: Path, store: CountingStore) -> None:
    dataset = opened(store)
    commit(dataset, a=3, b=1)
    recovered(file, dataset, a=NOW, b=NOW)
    commit(dataset, a=4)
    progress = recovered(file, opened(store), a=NOW, b=NOW)
    assert (progress.rows("a"), progress.rows("b")) == (4, 1)


def test_a_checkpoint_limits_the_reads(file: Path, store: CountingStore) -> None:
    dataset = opened(store)
    for rows in range(1, 41):
        commit(dataset, a=rows)
    whole = reads_to_recover(file, store, a=NOW - timedelta(days=9))
    commit(dataset, a=41)
    short = reads_to_recover(file, store, a=NOW - timedelta(days=9))
    assert short < 8 < whole


def test_recovery_reads_no_further_back_than_the_oldest_stream(tmp_path: Path, store: CountingStore) -> None:
    dataset = opened(store)
    for rows in range(1, 41):
        commit(dataset, a=rows)
    long = reads_to_recover(tmp_path / "old", store, a=NOW - timedelta(days=9))
    # All snapshots are older than a stream from the future.
    assert reads_to_recover(tmp_path / "new", store, a=NOW + timedelta(days=1)) < 8 < long
    assert reads_to_recover(tmp_path / "none", store) < 8


def test_a_clock_that_was_set_back_a_little_hides_no_rows(file: Path, store: CountingStore) -> None:
    dataset = opened(store)
    commit(dataset, a=3)
    assert recovered(file, dataset, a=NOW + timedelta(minutes=50)).rows("a") == 3


@pytest.mark.parametrize(
    "content", [b"", b"{", b"null", b"[]", b'{"snapshot": 1, "streams": {}}', b"\xff\xfe\x00", b"\0" * 300]
)
def test_a_damaged_checkpoint_only_costs_reads(file: Path, store: CountingStore, content: bytes) -> None:
    dataset = opened(store)
    commit(dataset, a=3)
    recovered(file, dataset, a=NOW)
    file.write_bytes(content)
    assert recovered(file, dataset, a=NOW).rows("a") == 3
    assert StreamProgress(file).rows("a") == 0  # only recover reads it
    assert recovered(file, dataset, a=NOW).rows("a") == 3


def test_a_checkpoint_of_an_unknown_snapshot_does_not_end_the_search(
    file: Path, store: CountingStore
) -> None:
    elsewhere = opened(MemoryStore())
    commit(elsewhere, b=1)
    recovered(file, elsewhere, b=NOW)
    dataset = opened(store)
    commit(dataset, a=3)
    assert recovered(file, dataset, a=NOW).rows("a") == 3


def test_a_checkpoint_that_cannot_be_written_is_skipped(
    tmp_path: Path, store: CountingStore, caplog: pytest.LogCaptureFixture
) -> None:
    dataset = opened(store)
    commit(dataset, a=3)
    assert recovered(tmp_path / "missing" / "progress.json", dataset, a=NOW).rows("a") == 3
    assert "could not be written" in caplog.text


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {METADATA: None},
        {METADATA: []},
        {METADATA: "streams"},
        {METADATA: {}},
        {METADATA: {"streams": None}},
        {METADATA: {"streams": [1, 2]}},
        {METADATA: {"streams": {"a": "9"}}},
        {METADATA: {"streams": {"a": None, "b": {}}}},
        {METADATA: {"streams": {"a": 2}}},
    ],
)
def test_snapshots_without_progress_of_a_stream_change_nothing(
    file: Path, store: CountingStore, metadata: dict[str, Any]
) -> None:
    dataset = opened(store)
    commit(dataset, a=3)
    newest = dataset.write(b"rows", metadata)
    progress = recovered(file, dataset, a=NOW)
    assert progress.rows("a") == 3
    assert progress.head == newest.id


def test_catching_up_returns_the_streams_with_more_visible_rows(file: Path, store: CountingStore) -> None:
    dataset = opened(store)
    commit(dataset, a=3, b=1)
    progress = recovered(file, dataset, a=NOW, b=NOW)
    assert progress.catch_up(dataset) == set()
    commit(dataset, a=4)
    progress.follow("c")
    commit(dataset, a=5, c=1)
    assert progress.catch_up(dataset) == {"a", "c"}
    assert progress.rows("a") == 5
    assert progress.catch_up(dataset) == set()


def test_a_commit_of_this_server_is_recorded_without_a_read(file: Path, store: CountingStore) -> None:
    dataset = opened(store)
    progress = recovered(file, dataset, a=NOW)
    snapshot = commit(dataset, a=3)
    before = store.total
    progress.record(snapshot)
    assert store.total == before
    assert (progress.head, progress.rows("a")) == (snapshot.id, 3)


def test_a_foreign_commit_before_an_own_one_is_found_by_the_next_catch_up(
    file: Path, store: CountingStore
) -> None:
    dataset = opened(store)
    progress = recovered(file, dataset, a=NOW, b=NOW)
    commit(opened(store), b=7)
    snapshot = commit(opened(store), a=3)
    progress.record(snapshot)
    assert progress.rows("a") == 3
    assert progress.head != snapshot.id
    assert progress.catch_up(dataset) == {"b"}
    assert progress.head == snapshot.id


def test_after_64_commits_among_those_of_others_history_is_to_be_read(
    file: Path, store: CountingStore
) -> None:
    dataset = opened(store)
    progress = recovered(file, dataset, a=NOW)
    commit(opened(store))
    far_behind = []
    for _ in range(64):
        far_behind.append(progress.is_far_behind)
        progress.record(commit(opened(store)))
    far_behind.append(progress.is_far_behind)
    progress.catch_up(dataset)
    far_behind.append(progress.is_far_behind)
    assert far_behind == [False] * 64 + [True, False]
    progress.record(commit(opened(store)))
    assert progress.head == opened(store).latest().id


def test_a_checkpoint_is_written_every_64_commits(file: Path, store: CountingStore) -> None:
    dataset = opened(store)
    progress = recovered(file, dataset, a=NOW)
    for rows in range(1, 65):
        progress.record(commit(dataset, a=rows))
    assert reads_to_recover(file, store, a=NOW) < 8
    assert recovered(file, dataset, a=NOW).rows("a") == 64


def test_a_removed_stream_is_forgotten(file: Path, store: CountingStore) -> None:
    dataset = opened(store)
    commit(dataset, a=3, b=4)
    progress = recovered(file, dataset, a=NOW)
    assert progress.rows("b") == 0
    progress.forget("a")
    assert progress.rows("a") == 0


def test_a_snapshot_that_was_swapped_in_and_not_published_counts(file: Path) -> None:
    inner = MemoryStore()
    dying = FaultStore(inner, Fault(method="compare_and_swap", when="after"))
    with pytest.raises(SimulatedCrash):
        commit(opened(dying), a=3)
    assert recovered(file, opened(inner), a=NOW).rows("a") == 3


def test_streams_of_other_servers_are_not_kept(file: Path, store: CountingStore) -> None:
    dataset = opened(store)
    progress = recovered(file, dataset, a=NOW)
    commit(dataset, a=1, others=7)
    assert progress.catch_up(dataset) == {"a"}
    assert progress.visible("others") is None
    progress.save()
    assert b"others" not in file.read_bytes()
