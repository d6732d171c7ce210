"""What a snapshot, its report, the metrics and a copy tell of the group that one swap committed."""

from __future__ import annotations

import pytest

import lode
from lode.ingest.core.metrics import Metrics
from lode.store.memory import MemoryStore
from support.groups import Far, always_wait, write_group


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    """A dataset with one snapshot, whose writers wait for each other."""
    store = MemoryStore()
    lode.Dataset("d", store, codec="jsonl").write([{"k": 0}])
    always_wait(monkeypatch)
    return store


def test_a_snapshot_that_was_committed_alone_is_a_group_of_one_and_did_not_wait(store: MemoryStore) -> None:
    snapshot = lode.Dataset("d", store).write([{"k": 1}])
    assert snapshot.commit is not None
    assert (snapshot.group, snapshot.commit.group, snapshot.commit.waited) == (1, 1, 0.0)


def test_every_member_reports_the_size_of_its_group_and_how_long_it_waited(store: MemoryStore) -> None:
    members = write_group(store, "d", 3)
    reports = [member.commit for member in members if member.commit is not None]
    assert [report.group for report in reports] == [3, 3, 3]
    assert all(0 < report.waited <= report.seconds for report in reports)
    assert [member.sequence for member in members] == [2, 3, 4]


def test_a_snapshot_that_was_read_has_the_size_of_its_group(store: MemoryStore) -> None:
    write_group(store, "d", 2)
    assert [snapshot.group for snapshot in lode.Dataset("d", store).snapshots()] == [1, 2, 2]


def test_a_snapshot_of_a_volume_has_a_group_too(store: MemoryStore) -> None:
    volume = lode.Volume("disk", Far(store), total_length=8)
    assert volume.commit([volume.stage_write_at(0, b"one.")]).group == 1


def test_the_metrics_have_the_sizes_of_groups_and_the_time_spent_waiting(store: MemoryStore) -> None:
    metrics = Metrics()
    members = write_group(store, "d", 3)
    for member in members:
        metrics.committed(member, seconds=1.0)
    lines = dict(line.rsplit(" ", 1) for line in metrics.text().decode().splitlines() if line[0] != "#")
    assert float(lines["lode_commit_swap_size_count"]) == 3
    assert float(lines["lode_commit_swap_size_sum"]) == 9
    waited = sum(member.commit.waited for member in members if member.commit is not None)
    assert float(lines["lode_commit_wait_seconds_sum"]) == pytest.approx(waited)


def test_a_dataset_with_groups_is_copied_under_another_name(store: MemoryStore) -> None:
    members = write_group(store, "d", 3)
    target = MemoryStore()
    lode.copy(lode.Dataset("d", store), target, name="e")
    copied = lode.Dataset("e", target).snapshots()
    assert [snapshot.id for snapshot in copied[1:]] == [member.id for member in members]
    assert [snapshot.group for snapshot in copied] == [1, 3, 3, 3]
