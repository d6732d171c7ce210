"""What the console keeps of a history: right after every kind of change, and cheap to keep so."""

from __future__ import annotations

import threading

import pytest

import lode
from lode.errors import NotFoundError
from lode.store import MemoryStore
from lode.store.wrappers import CountingStore
from lode.ui import timeline
from lode.ui.timeline import DatasetTimeline, began_before, contention
from support.groups import always_wait, write_group


def test_it_reads_only_what_is_new() -> None:
    store = MemoryStore()
    counting = CountingStore(store)
    dataset = lode.Dataset("d", store, codec="jsonl")
    for number in range(40):
        dataset.write([{"n": number}])
    timeline = DatasetTimeline(counting, "d")
    assert len(timeline.look().lines) == 40
    dataset.write([{"n": 40}])
    counting.reset()
    view = timeline.look()
    assert [line.sequence for line in view.lines] == list(range(1, 42))
    assert counting.total <= 4


def test_a_write_that_was_overtaken_is_marked_with_how_many_came_first() -> None:
    store = MemoryStore()
    dataset = lode.Dataset("d", store, codec="jsonl", layout=lode.HiveLayout("k"))
    timeline = DatasetTimeline(store, "d")
    dataset.write([{"k": "a"}])
    other = lode.Dataset("d", store, codec="jsonl", layout=lode.HiveLayout("k"))
    with other.transaction() as late:
        late.stage([{"k": "late"}])
        dataset.write([{"k": "b"}])
        assert [line.rebased for line in timeline.look().lines] == [0, 0]
        dataset.write([{"k": "c"}])
        rebased = late.commit()
    assert rebased.commit is not None
    assert rebased.commit.rebases == 1
    lode.open_dataset("d", store).write([{"k": "d"}])
    assert [line.rebased for line in timeline.look().lines] == [0, 0, 0, 2, 0]
    assert [line.rebased for line in DatasetTimeline(store, "d").look().lines] == [0, 0, 0, 2, 0]


def test_a_rebase_that_only_the_manifest_tells_of_is_marked() -> None:
    store = MemoryStore()
    dataset = lode.Dataset("d", store, codec="jsonl", layout=lode.HiveLayout("k"))
    dataset.write([{"k": "a"}])
    lode.open_dataset("d", store).write([{"k": "b"}])
    late = dataset.write([{"k": "c"}])  # began behind both, but its writer knew only of the first
    assert late.rebases == 1
    assert [line.rebased for line in DatasetTimeline(store, "d").look().lines] == [0, 0, 1]


def test_the_members_of_a_group_are_not_called_overtaken_by_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = MemoryStore()
    lode.Dataset("d", store, codec="jsonl").write([{"k": 0}])
    always_wait(monkeypatch)
    write_group(store, "d", 3)
    lines = DatasetTimeline(store, "d").look().lines
    assert [(line.place, line.group, line.rebased) for line in lines] == [
        (1, 1, 0),
        (1, 3, 0),
        (2, 3, 0),
        (3, 3, 0),
    ]


def test_contention_is_that_of_the_newest_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    dataset = lode.Dataset("d", store, codec="jsonl")
    dataset.write([{"k": 0}])
    always_wait(monkeypatch)
    for size in (3, 2, 2):
        write_group(store, "d", size)
    late = dataset.write([{"k": 9}], on_conflict="append")
    assert late.rebases == 1
    lines = DatasetTimeline(store, "d").look().lines
    found = contention(lines)
    assert [found[name] for name in ("recent", "rebased", "grouped", "groups", "largest")] == [9, 1, 7, 3, 3]
    assert [point["group"] for point in found["points"]] == [1, 3, 3, 3, 2, 2, 2, 2, 1]
    monkeypatch.setattr(timeline, "MAX_RECENT", 2)
    found = contention(lines)
    assert [found[name] for name in ("recent", "rebased", "grouped", "groups", "largest")] == [2, 1, 1, 1, 2]


def test_an_id_without_a_time_is_never_called_overtaken() -> None:
    assert not began_before("my-own-id", 10**30)
    assert not began_before("0001", 10**30)
    assert began_before("1700000000000000000-00ff", 1_700_000_000_000_000_001)


def test_a_hole_in_the_history_ends_it_and_is_told_until_it_is_mended() -> None:
    store = MemoryStore()
    dataset = lode.Dataset("d", store, codec="jsonl")
    snapshots = [dataset.write([{"n": number}]) for number in range(6)]
    hole = dataset.chain.paths.manifest(snapshots[2].id)
    content = store.get(hole)
    store.delete(hole)
    timeline = DatasetTimeline(store, "d")
    view = timeline.look()
    assert [line.sequence for line in view.lines] == [4, 5, 6]
    assert not view.is_whole
    assert view.broken is not None
    assert snapshots[2].id in view.broken
    store.put(hole, content)
    assert timeline.look().is_whole
    assert timeline.look().broken is None


def test_a_snapshot_that_is_not_yet_published_is_told() -> None:
    store = MemoryStore()
    dataset = lode.Dataset("d", store, codec="jsonl")
    first, second = (dataset.write([{"n": number}]) for number in range(2))
    store.delete(dataset.chain.paths.manifest(second.id))
    view = DatasetTimeline(store, "d").look()
    assert [line.id for line in view.lines] == [first.id]
    assert view.pending == second.id


def test_a_dataset_that_was_replaced_is_read_anew() -> None:
    store = MemoryStore()
    lode.Dataset("d", store, codec="jsonl").write([{"n": 1}])
    timeline = DatasetTimeline(store, "d")
    timeline.look()
    for entry in list(store.list("datasets/d/")):
        store.delete(entry.path)
    with pytest.raises(NotFoundError):
        timeline.look()
    lode.Dataset("d", store, codec="jsonl", layout=lode.HiveLayout("k")).write([{"k": "x"}, {"k": "y"}])
    view = timeline.look()
    assert [(line.sequence, line.rows, line.partitions) for line in view.lines] == [(1, 2, 2)]


def test_many_may_look_while_somebody_writes() -> None:
    store = MemoryStore()
    dataset = lode.Dataset("d", store, codec="jsonl")
    dataset.write([{"n": 0}])
    timeline = DatasetTimeline(store, "d")
    wrong: list[object] = []

    def look() -> None:
        for _ in range(40):
            sequences = [line.sequence for line in timeline.look().lines]
            if sequences != list(range(1, len(sequences) + 1)):
                wrong.append(sequences)

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(60):
        dataset.write([{"n": number}])
    for thread in threads:
        thread.join()
    assert wrong == []
    assert timeline.look().last == 61
