"""The write contract: many writers, conflicts, retries, and stores that cannot swap."""

from __future__ import annotations

import multiprocessing
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

import lode
from lode.runtime import Runtime
from lode.store import (
    CountingStore,
    Fault,
    FaultStore,
    LocalStore,
    MemoryStore,
    StoreWrapper,
    SupportsQueue,
    SupportsVolatilePut,
)
from support.stores import SwaplessStore, contents, data_files, manifests, names, writes

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

POINTER = "datasets/events/latest"

T = TypeVar("T")


def chain(dataset: lode.Dataset) -> list[tuple[str | None, str]]:
    return [(snapshot.parent_id, snapshot.id) for snapshot in dataset.snapshots()]


def assert_linear(dataset: lode.Dataset, length: int) -> None:
    ids = [snapshot.id for snapshot in dataset.snapshots()]
    assert len(set(ids)) == length
    assert chain(dataset) == list(zip([None, *ids], ids, strict=False))
    assert lode.verify(dataset).ok


def conflict(store: lode.Store, make: Callable[[], lode.Dataset]) -> lode.SnapshotConflictError:
    """Make two writers start from one head, let the other win, and return what ours is told."""
    ours = make()
    ours.write(b"base")
    lode.Dataset("events", store).write(b"theirs")
    with pytest.raises(lode.SnapshotConflictError) as caught:
        ours.write(b"ours", {"mine": True})
    return caught.value


# -- the four ways to write ----------------------------------------------------------------------


def test_a_single_writer_makes_one_snapshot_per_write_in_one_line(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store)
    for _ in range(4):
        dataset.write(b"x")
    assert_linear(dataset, 4)


def test_writers_that_take_turns_make_one_line(store: CountingStore) -> None:
    for turn in range(4):
        lode.Dataset("events", store).write(str(turn).encode())
    assert_linear(lode.Dataset("events", store), 4)


def test_uncoordinated_writers_make_one_line(store: CountingStore) -> None:
    start = threading.Barrier(4)

    def work(writer: int) -> None:
        dataset = lode.Dataset("events", store, retry=lode.Retry(50, base_delay=0.001, max_delay=0.01))
        start.wait()
        for turn in range(3):
            dataset.write(f"{writer}.{turn}".encode())

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    dataset = lode.Dataset("events", store)
    assert_linear(dataset, 12)
    assert {dataset.read(snapshot) for snapshot in dataset.snapshots()} == {
        f"{writer}.{turn}".encode() for writer in range(4) for turn in range(3)
    }


def test_parallel_staging_makes_one_snapshot_of_all_parts(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store, codec="jsonl")
    with dataset.transaction() as transaction, ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda part: transaction.stage([{"part": part}]), range(8)))
        snapshot = transaction.commit()
    assert dataset.snapshots() == [snapshot]
    assert (snapshot.row_count, len(snapshot.files)) == (8, 8)
    assert sorted(row["part"] for row in dataset.read(snapshot)) == list(range(8))


# -- detection -----------------------------------------------------------------------------------


def test_a_commit_behind_another_writers_back_is_a_conflict(store: CountingStore) -> None:
    error = conflict(store, lambda: lode.Dataset("events", store))
    assert error.landed is False
    dataset = lode.Dataset("events", store)
    assert [dataset.read(snapshot) for snapshot in dataset.snapshots()] == [b"base", b"theirs"]


def test_the_conflict_says_who_won_and_what_to_do(store: CountingStore) -> None:
    error = conflict(store, lambda: lode.Dataset("events", store))
    winner = lode.Dataset("events", store).latest().id
    assert winner in str(error)
    assert "did not land" in str(error)
    assert "error.transaction" in str(error)
    assert 'on_conflict="append"' in str(error)


def test_a_write_expects_the_head_its_dataset_knows_when_it_commits(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store)
    base = dataset.write(b"base")
    transaction = dataset.transaction()
    transaction.stage(b"mine")
    lode.Dataset("events", store).write(b"theirs")
    with pytest.raises(lode.SnapshotConflictError):
        transaction.commit()
    intent = contents(store)[f"datasets/events/snapshots/{transaction.snapshot_id}/intent.json"]
    assert base.id.encode() in intent


def test_a_store_that_can_swap_is_never_asked_to_delete_and_put_the_pointer(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store)
    dataset.write(b"x")
    dataset.write(b"y")
    assert [method for method, path in store.events if path == POINTER and method != "get"] == [
        "compare_and_swap",
        "compare_and_swap",
    ]
    assert store.counts["delete"] == 0


def test_two_first_writes_conflict_too(store: CountingStore) -> None:
    transactions = [lode.Dataset("events", store).transaction() for _ in range(2)]
    for transaction in transactions:
        transaction.stage(b"x")
    winner = transactions[0].commit()
    with pytest.raises(lode.SnapshotConflictError):
        transactions[1].commit()
    assert lode.Dataset("events", store).snapshots() == [winner]


def test_conflict_detection_needs_no_configuration(store: CountingStore) -> None:
    assert lode.Dataset("events", store).safe_for_many_writers
    conflict(store, lambda: lode.Dataset("events", store))


def test_a_stream_detects_conflicts_as_a_write_does(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store)
    dataset.write(b"base")
    writer = dataset.stream_write()
    writer.write(b"ours")
    lode.Dataset("events", store).write(b"theirs")
    with pytest.raises(lode.SnapshotConflictError) as caught:
        writer.commit()
    snapshot = caught.value.transaction.commit()
    assert dataset.read(snapshot) == b"ours"
    assert_linear(dataset, 3)


def test_a_single_writer_never_meets_a_conflict(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store)
    for _ in range(3):
        commit = dataset.write(b"x").commit
        assert commit is not None
        assert (commit.attempts, commit.rebases, commit.retries) == (1, 0, 0)


def test_external_coordination_stays_valid(store: CountingStore) -> None:
    turn = threading.Lock()

    def work(writer: int) -> None:
        with turn:
            dataset = lode.Dataset("events", store)
            dataset.write(str(writer).encode())

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(6)))
    assert_linear(lode.Dataset("events", store), 6)


# -- one dataset object, many threads and streams --------------------------------------------------


def test_two_streams_of_one_dataset_committed_in_turn_both_land(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store)
    first, second = dataset.stream_write(), dataset.stream_write()
    first.write(b"one")
    second.write(b"two")
    first.commit()
    second.commit()
    assert [dataset.read(snapshot) for snapshot in dataset.snapshots()] == [b"one", b"two"]


def test_threads_that_share_a_dataset_never_conflict_with_each_other(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store)
    start = threading.Barrier(4)

    def work(writer: int) -> None:
        start.wait()
        for turn in range(20):
            dataset.write(f"{writer}.{turn}".encode())

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert_linear(dataset, 80)


def test_threads_that_share_a_cold_dataset_never_conflict_with_each_other() -> None:
    for _ in range(20):
        dataset = lode.Dataset("events", MemoryStore())
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(dataset.write, [b"x"] * 4))
        assert_linear(dataset, 4)


def test_threads_under_one_key_share_one_snapshot() -> None:
    dataset = lode.Dataset("events", MemoryStore())
    transactions = [dataset.transaction(idempotency_key="job") for _ in range(2)]
    for transaction in transactions:
        transaction.stage(b"x")
    first, second = (transaction.commit() for transaction in transactions)
    assert first == second
    assert second.commit is not None
    assert second.commit.replayed
    assert_linear(dataset, 1)


READS: dict[str, Callable[[lode.Dataset], object]] = {
    "snapshots": lambda dataset: dataset.snapshots(),
    "history": lambda dataset: list(dataset.history()),
    "changes": lambda dataset: dataset.changes(),
    "snapshot": lambda dataset: dataset.snapshot("latest"),
    "read": lambda dataset: dataset.read("latest"),
    "tags": lambda dataset: dataset.tags(),
    "exists": lambda dataset: dataset.exists,
    "definition": lambda dataset: dataset.definition,
    "settle": lambda dataset: dataset.settle(),
    "plan": lambda dataset: dataset.plan(),
    "verify": lode.verify,
}


@pytest.mark.parametrize("read", READS)
def test_no_read_but_latest_changes_whether_a_write_conflicts(store: CountingStore, read: str) -> None:
    dataset = lode.Dataset("events", store)
    dataset.write(b"base")
    lode.Dataset("events", store).write(b"theirs")
    READS[read](dataset)
    with pytest.raises(lode.SnapshotConflictError):
        dataset.write(b"ours")


def test_objects_that_take_turns_and_look_before_each_write_never_conflict(store: CountingStore) -> None:
    first, second = (lode.Dataset("events", store) for _ in range(2))
    first.write(b"0")
    for turn in range(1, 7):
        dataset = (second, first)[turn % 2]
        assert dataset.latest().row_count == 1
        dataset.write(str(turn).encode())
    assert_linear(first, 7)


def test_a_write_after_latest_conflicts_with_what_came_after_it(store: CountingStore) -> None:
    lode.Dataset("events", store).write(b"base")
    dataset = lode.Dataset("events", store)
    dataset.latest()
    lode.Dataset("events", store).write(b"theirs")
    with pytest.raises(lode.SnapshotConflictError):
        dataset.write(b"ours")


def test_latest_is_all_that_the_next_write_needs_of_the_head(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store)
    dataset.write(b"base")
    lode.Dataset("events", store).write(b"theirs")
    dataset.latest()
    store.reset()
    dataset.write(b"ours")
    # On a disk the manifest of the other writer may not be synced yet.
    assert store.total - store.counts["sync"] == 4


def test_latest_never_moves_a_base_that_was_captured(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store)
    dataset.write(b"base")
    with dataset.transaction() as captured, dataset.transaction() as open_:
        for transaction in (captured, open_):
            transaction.stage(b"ours")
        captured.capture()
        lode.Dataset("events", store).write(b"theirs")
        dataset.latest()
        with pytest.raises(lode.SnapshotConflictError):
            captured.commit()
        open_.commit()


def test_latest_in_another_thread_hides_no_conflict_of_a_write_that_has_begun() -> None:
    """The other thread looks while the file of this one is uploaded."""

    class Meanwhile(StoreWrapper):
        act: Callable[[], object] | None = None

        def around(self, method: str, path: str, call: Callable[[], T]) -> T:
            act, self.act = self.act, None
            if act is not None:
                act()
            return call()

    plain = MemoryStore()
    store = Meanwhile(plain)
    dataset = lode.Dataset("events", store)
    dataset.write(b"base")

    def others() -> None:
        lode.Dataset("events", plain).write(b"theirs")
        with ThreadPoolExecutor(1) as pool:
            pool.submit(dataset.latest).result()

    store.act = others
    with pytest.raises(lode.SnapshotConflictError):
        dataset.write(b"ours")


def test_latest_does_not_expect_what_is_committed_and_not_visible_yet() -> None:
    plain = MemoryStore()
    dataset = lode.Dataset("events", plain)
    base = dataset.write(b"base")
    faulty = FaultStore(plain, Fault("put", "*/manifest.json", error=lode.StoreError("unplugged")))
    with pytest.raises(lode.CommitUnpublishedError):
        lode.Dataset("events", faulty).write(b"theirs")
    assert dataset.latest() == base
    with pytest.raises(lode.SnapshotConflictError):
        dataset.write(b"ours")


def test_an_observer_may_write_to_the_dataset_it_observes(store: CountingStore) -> None:
    seen: list[str] = []

    def observe(id: str, _: lode.CommitReport) -> None:
        seen.append(id)
        if len(seen) == 1:
            dataset.write(b"from the observer")

    dataset = lode.Dataset("events", store, observer=observe)
    dataset.write(b"x")
    assert seen == [snapshot.id for snapshot in dataset.snapshots()]


def test_a_child_that_was_forked_during_a_commit_can_commit(tmp_path: Path) -> None:
    dataset = lode.Dataset("events", LocalStore(tmp_path, durable=False))
    dataset.write(b"base")
    with dataset._handle.find().committer._lock:
        child = multiprocessing.get_context("fork").Process(target=dataset.write, args=(b"child",))
        child.start()
        child.join(60)
    assert child.exitcode == 0
    assert_linear(lode.Dataset("events", dataset.store), 2)


def test_a_commit_that_could_not_be_published_is_no_conflict_for_the_next() -> None:
    store = FaultStore(MemoryStore())
    dataset = lode.Dataset("events", store)
    dataset.write(b"base")
    store.add(Fault("put", "*/manifest.json", error=lode.StoreError("unplugged")))
    with pytest.raises(lode.CommitUnpublishedError) as caught:
        dataset.write(b"unpublished")
    snapshot = dataset.write(b"next")
    assert snapshot.parent_id == caught.value.snapshot_id
    assert_linear(dataset, 3)


def test_a_commit_that_fails_before_its_swap_captures_anew_when_it_is_repeated() -> None:
    store = FaultStore(MemoryStore(), Fault("put", "*/intent.json", error=lode.StoreError("try later")))
    dataset = lode.Dataset("events", store)
    transaction = dataset.transaction()
    transaction.stage(b"x")
    with pytest.raises(lode.StoreError, match="try later"):
        transaction.commit()
    other = dataset.write(b"y")
    assert transaction.commit().parent_id == other.id


# -- writes that depend on what was read -----------------------------------------------------------


def test_a_write_with_a_base_conflicts_with_whatever_overlaps_after_it(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store)
    base = dataset.write(b"base")
    later = dataset.write(b"later")
    with pytest.raises(
        lode.SnapshotConflictError, match=f"after {base.id} snapshot {later.id} also wrote"
    ) as caught:
        dataset.write(b"computed from base", base=base)
    assert caught.value.transaction.base_id == later.id
    assert caught.value.transaction.commit().parent_id == later.id


@pytest.mark.parametrize("cold", [False, True], ids=["warm", "cold"])
def test_a_write_whose_base_is_the_head_follows_it(store: CountingStore, cold: bool) -> None:
    dataset = lode.Dataset("events", store)
    base = dataset.write(b"base")
    target = lode.Dataset("events", store) if cold else dataset
    assert target.write(b"next", base=base.id).parent_id == base.id


def test_a_base_does_not_conflict_with_other_partitions(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store, codec="jsonl", layout=lode.HiveLayout("day"))
    base = dataset.write([{"day": "monday"}])
    dataset.write([{"day": "tuesday"}])
    assert dataset.write([{"day": "monday"}], base=base).sequence == 3
    with pytest.raises(lode.SnapshotConflictError, match="day=monday"):
        dataset.write([{"day": "monday"}], base=base)


def test_a_stream_takes_a_base_too(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store)
    base = dataset.write(b"base")
    writer = dataset.stream_write(base=base)
    dataset.write(b"later")
    with pytest.raises(lode.SnapshotConflictError):
        writer.commit()


def test_a_base_that_is_no_snapshot_of_this_dataset_is_refused_before_anything_is_staged(
    store: CountingStore,
) -> None:
    other = lode.Dataset("other", store).write(b"x")
    dataset = lode.Dataset("events", store)
    for base in (other, "20260101"):
        with pytest.raises(lode.NotFoundError):
            dataset.write(b"x", base=base)
    assert not [path for path in contents(store) if path.startswith("datasets/events/")]


def test_capturing_the_base_fixes_what_the_commit_expects(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store)
    base = dataset.write(b"base")
    transaction = dataset.transaction()
    assert [transaction.base_id, transaction.capture(), transaction.base_id] == [None, base.id, base.id]
    later = dataset.write(b"later")
    assert transaction.capture() == base.id
    transaction.stage(b"mine")
    with pytest.raises(lode.SnapshotConflictError):
        transaction.commit()
    assert transaction.base_id == later.id


# -- following anybody -----------------------------------------------------------------------------


def test_a_write_that_appends_follows_anybody_without_a_count(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store)
    dataset.write(b"base")
    for _ in range(3):
        lode.Dataset("events", store).write(b"theirs")
        report = dataset.write(b"ours", on_conflict="append").commit
        assert report is not None
        assert (report.rebases, report.retries) == (1, 0)
    assert_linear(dataset, 7)


def test_every_way_to_write_can_append(store: CountingStore) -> None:
    blobs, rows = lode.Dataset("events", store), lode.Dataset("rows", store, codec="jsonl")
    writer = blobs.stream_write(on_conflict="append")
    transaction = rows.transaction(on_conflict="append")
    transaction.stage([{"n": 1}])
    lode.Dataset("events", store).write(b"theirs")
    lode.Dataset("rows", store, codec="jsonl").write([{"n": 0}])
    assert (writer.commit().sequence, transaction.commit().sequence) == (2, 2)
    lode.Dataset("rows", store, codec="jsonl").write([{"n": 2}])
    assert rows.stream_write_records([{"n": 3}], on_conflict="append").sequence == 4


def test_uncoordinated_writers_that_append_all_succeed(store: CountingStore) -> None:
    start = threading.Barrier(4)

    def work(writer: int) -> None:
        dataset = lode.Dataset("events", store)
        start.wait()
        for turn in range(5):
            dataset.write(f"{writer}.{turn}".encode(), on_conflict="append")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert_linear(lode.Dataset("events", store), 20)


def test_a_commit_that_may_not_be_rebased_conflicts_also_where_it_appends(store: CountingStore) -> None:
    transaction = lode.Dataset("events", store).transaction(on_conflict="append")
    transaction.stage(b"ours")
    lode.Dataset("events", store).write(b"theirs")
    with pytest.raises(lode.SnapshotConflictError):
        transaction.commit(rebase=False)


@pytest.mark.parametrize("value", ["ignore", None, True])
def test_an_unknown_way_to_meet_a_conflict_is_refused_with_the_choices(
    value: Any, memory: CountingStore
) -> None:
    with pytest.raises(lode.InvalidOptionError, match='"raise" or "append"'):
        lode.Dataset("events", memory).write(b"x", on_conflict=value)
    assert memory.total == 0


def test_a_base_and_appending_contradict_each_other(memory: CountingStore) -> None:
    dataset = lode.Dataset("events", memory)
    base = dataset.write(b"x")
    with pytest.raises(lode.InvalidOptionError, match="contradict"):
        dataset.write(b"y", base=base, on_conflict="append")


# -- trying again by hand ------------------------------------------------------------------------


def test_a_manual_retry_costs_one_intent_one_swap_and_one_manifest(store: CountingStore) -> None:
    error = conflict(store, lambda: lode.Dataset("events", store))
    store.reset()
    snapshot = error.transaction.commit()
    # On a disk a writer that met another one also takes its place in a queue, a file lock.
    queue = [("queue", "latest")] if isinstance(store, SupportsQueue) else []
    # It also makes sure that what it builds on, which another process put, survives a power cut.
    queue += [("sync", "manifest.json")] if isinstance(store, SupportsVolatilePut) else []
    assert [(method, path.rpartition("/")[2]) for method, path in store.events] == [
        *queue,
        ("compare_and_swap", "intent.json"),
        ("compare_and_swap", "latest"),
        ("put", "manifest.json"),
    ]
    assert snapshot.metadata == {"mine": True}


def test_a_manual_retry_uploads_no_data_again(store: CountingStore) -> None:
    error = conflict(store, lambda: lode.Dataset("events", store))
    staged = [path for path in data_files(store) if error.transaction.snapshot_id in path]
    assert len(staged) == 1
    error.transaction.commit()
    assert writes(store)[staged[0]] == 1


def test_after_a_conflict_one_can_read_the_new_head_merge_and_commit(store: CountingStore) -> None:
    ours = lode.Dataset("events", store, codec="jsonl")
    ours.write([{"n": 1}])
    lode.Dataset("events", store, codec="jsonl").write([{"n": 2}])
    with pytest.raises(lode.SnapshotConflictError) as caught:
        ours.write([{"n": 3}])
    caught.value.transaction.abort()
    head = ours.latest()
    merged = ours.write([{"n": 3, "seen": ours.read(head)}])
    assert merged.parent_id == head.id
    assert_linear(ours, 3)


def test_a_conflicting_transaction_that_is_aborted_removes_its_files(store: CountingStore) -> None:
    error = conflict(store, lambda: lode.Dataset("events", store))
    error.transaction.abort()
    assert [path for path in data_files(store) if error.transaction.snapshot_id in path] == []
    with pytest.raises(lode.TransactionClosedError):
        error.transaction.commit()


def test_a_second_conflict_can_be_retried_as_the_first(store: CountingStore) -> None:
    error = conflict(store, lambda: lode.Dataset("events", store))
    lode.Dataset("events", store).write(b"theirs again")
    with pytest.raises(lode.SnapshotConflictError):
        error.transaction.commit()
    error.transaction.commit()
    assert_linear(lode.Dataset("events", store), 4)


# -- trying again automatically ------------------------------------------------------------------


class Rival:
    """A clock whose sleep lets another writer commit first, as often as it is told to."""

    def __init__(self, store: lode.Store, times: int) -> None:
        self.store = store
        self.times = times
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    def strike(self) -> None:
        if self.times > 0:
            self.times -= 1
            lode.Dataset("events", self.store).write(b"theirs")


class Beaten(CountingStore):
    """A store on which a rival commits just before each of our swaps, as long as it wants to."""

    def __init__(self, inner: lode.Store, rival: Rival) -> None:
        self.rival = rival
        super().__init__(inner)

    def _compare_and_swap(self, path: str, expected: bytes | None, replacement: bytes) -> bool:
        if path == POINTER:
            self.rival.strike()
        return super()._compare_and_swap(path, expected, replacement)


def beaten(times: int, retry: lode.Retry, chance: float = 0.0) -> tuple[lode.Dataset, Beaten]:
    inner = MemoryStore()
    lode.Dataset("events", inner).write(b"base")
    rival = Rival(inner, times)
    store = Beaten(inner, rival)
    runtime = Runtime(sleep=rival.sleep, random=lambda: chance)
    return lode.Dataset("events", store, retry=retry, runtime=runtime), store


def test_automatic_retry_goes_on_until_it_wins() -> None:
    dataset, _ = beaten(3, lode.Retry(5))
    snapshot = dataset.write(b"ours")
    assert snapshot.commit is not None
    assert (snapshot.commit.attempts, snapshot.commit.retries) == (4, 3)
    assert_linear(dataset, 5)


def test_automatic_retry_waits_twice_as_long_each_time_up_to_the_most() -> None:
    dataset, store = beaten(5, lode.Retry(5, base_delay=0.25, max_delay=2.0, jitter=0))
    dataset.write(b"ours")
    assert store.rival.slept == [0.25, 0.5, 1.0, 2.0, 2.0]


def test_automatic_retry_waits_with_jitter() -> None:
    dataset, store = beaten(2, lode.Retry(2, base_delay=1.0, max_delay=8.0, jitter=0.5), chance=0.5)
    dataset.write(b"ours")
    assert store.rival.slept == [0.75, 1.5]


def test_full_jitter_covers_everything_from_nothing_to_the_whole_pause() -> None:
    retry = lode.Retry(3)
    assert retry.delay(0, 0.0) == 0.010
    assert retry.delay(0, 0.999) < 0.0001


def test_automatic_retry_moves_the_same_snapshot_under_the_new_head() -> None:
    dataset, store = beaten(1, lode.Retry(1))
    snapshot = dataset.write(b"ours")
    rival = dataset.snapshots()[-2]
    assert snapshot.parent_id == rival.id
    assert snapshot.sequence == 3
    assert sum(f"/{snapshot.id}/" in path for path in data_files(store)) == 1


def test_automatic_retry_writes_data_once_and_repeats_only_intent_and_swap() -> None:
    dataset, store = beaten(2, lode.Retry(2))
    snapshot = dataset.write(b"ours")
    folder = f"datasets/events/snapshots/{snapshot.id}"
    assert writes(store) == {
        f"{folder}/data/blob": 1,
        f"{folder}/intent.json": 3,
        POINTER: 3,
        f"{folder}/manifest.json": 1,
    }


def test_when_all_retries_are_used_up_the_conflict_is_raised_as_usual() -> None:
    dataset, store = beaten(9, lode.Retry(2))
    with pytest.raises(lode.SnapshotConflictError) as caught:
        dataset.write(b"ours")
    assert len(store.rival.slept) == 2
    store.rival.times = 0
    assert caught.value.transaction.commit().parent_id is not None


def test_without_retry_no_time_is_spent_sleeping() -> None:
    dataset, store = beaten(1, lode.Retry())
    with pytest.raises(lode.SnapshotConflictError):
        dataset.write(b"ours")
    assert store.rival.slept == []


def test_retry_is_off_by_default_with_ten_milliseconds_two_seconds_and_full_jitter() -> None:
    retry = lode.Retry()
    assert (retry.count, retry.base_delay, retry.max_delay, retry.jitter) == (0, 0.010, 2.0, 1.0)


def test_a_number_of_retries_is_refused_with_the_policy_to_give_instead() -> None:
    with pytest.raises(lode.InvalidOptionError, match=r"retry is 3: .*lode\.Retry\(3\)"):
        lode.Dataset("events", MemoryStore(), retry=3)  # type: ignore[arg-type]
    with pytest.raises(lode.InvalidOptionError, match=r"retry is 3: .*lode\.Retry\(3\)"):
        lode.Volume("disk", MemoryStore(), 8, retry=3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("count", -1),
        ("count", 1.5),
        ("base_delay", -0.1),
        ("base_delay", float("nan")),
        ("max_delay", 0.001),
        ("max_delay", float("nan")),
        ("jitter", -0.1),
        ("jitter", 1.1),
        ("jitter", float("nan")),
    ],
)
def test_a_retry_option_out_of_range_is_refused_by_name(option: str, value: float) -> None:
    with pytest.raises(lode.InvalidOptionError, match=rf"Retry\.{option} is {value}"):
        lode.Retry(**{option: value})  # type: ignore[arg-type]


# -- stores that can and cannot swap -------------------------------------------------------------


def test_a_store_without_swap_falls_back_to_delete_and_put() -> None:
    store = CountingStore(SwaplessStore())
    dataset = lode.Dataset("events", store)
    dataset.write(b"x")
    store.reset()
    dataset.write(b"y")
    assert names(store) == [
        ("put", "blob"),
        ("put", "intent.json"),
        ("get", "latest"),
        ("delete", "latest"),
        ("put", "latest"),
        ("put", "manifest.json"),
    ]
    assert_linear(dataset, 2)


def test_a_store_without_swap_raises_a_conflict_that_its_look_at_the_pointer_shows() -> None:
    store = SwaplessStore()
    first, second = (lode.Dataset("events", store) for _ in range(2))
    first.write(b"x")
    second.write(b"y")
    with pytest.raises(lode.SnapshotConflictError):
        first.write(b"z")
    first.latest()
    assert_linear(first, 2)
    first.write(b"z")
    assert_linear(first, 3)


def test_a_dataset_tells_whether_its_store_is_safe_for_many_writers() -> None:
    assert lode.Dataset("events", MemoryStore()).safe_for_many_writers
    assert not lode.Dataset("events", SwaplessStore()).safe_for_many_writers


def test_the_fallback_needs_no_configuration_and_reads_back() -> None:
    store = SwaplessStore()
    for number in range(3):
        lode.Dataset("events", store).write(str(number).encode())
    dataset = lode.Dataset("events", store)
    assert [dataset.read(snapshot) for snapshot in dataset.snapshots()] == [b"0", b"1", b"2"]


def test_puts_to_distinct_paths_may_be_made_at_once(store: CountingStore) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: store.put(f"distinct/{number}", str(number).encode()), range(40)))
    assert contents(store) == {f"distinct/{number}": str(number).encode() for number in range(40)}


def test_several_blobs_of_one_operation_are_several_snapshots_in_order(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store)
    for number in range(3):
        with dataset.stream_write({"part": number}) as writer:
            writer.write(str(number).encode())
            writer.commit()
    assert [snapshot.metadata["part"] for snapshot in dataset.snapshots()] == [0, 1, 2]


@pytest.mark.parametrize("size", [10, 5 << 20], ids=["one request", "in pieces"])
def test_an_upload_never_replaces_an_object_in_its_place(store: CountingStore, size: int) -> None:
    dataset = lode.Dataset("events", store)
    transaction = dataset.transaction()
    path = f"datasets/events/snapshots/{transaction.snapshot_id}/data/blob"
    store.put(path, b"somebody else's")
    with pytest.raises(lode.PathExistsError, match="data/blob"):
        transaction.stager.stage_named(bytes(size), "")
    assert contents(store)[path] == b"somebody else's"
    assert manifests(store) == []
