"""Many writers at one pointer: what a manifest recalls, who looks first, and how writers wait."""

from __future__ import annotations

import json
import pickle
import threading
from typing import TYPE_CHECKING

import msgspec
import pytest

import lode
from lode.errors import OutcomeUnknownError
from lode.format.manifest import MAX_CROWD
from lode.runtime import Runtime
from lode.store.local import LocalStore
from lode.store.memory import MemoryStore
from lode.store.wrappers import CountingStore
from lode.times import rfc3339_to_ns
from lode.write.contention import MAX_CONTENDERS, MAX_PAUSE_SECONDS, Contention, crowd_after
from lode.write.rebase import MAX_RECENT_CHARS, MAX_RECENT_COMMITS

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    from lode.snapshot import Snapshot
    from lode.write.transaction import Transaction

POINTER = "datasets/events/latest"


def dataset(store: lode.Store, *, keys: tuple[str, ...] = ("part",)) -> lode.Dataset:
    # History segments are written at once: their reads would be counted at any later time.
    runtime = Runtime(background=lambda chore: chore())
    return lode.Dataset("events", store, codec="jsonl", layout=lode.HiveLayout(*keys), runtime=runtime)


def write(store: lode.Store, part: str) -> Snapshot:
    return dataset(store).write([{"part": part}])


def prepared(store: lode.Store, part: str = "ours") -> Transaction:
    """A transaction that has all but its place in history."""
    transaction = dataset(store).transaction()
    transaction.stage([{"part": part}])
    return transaction


def rebased(store: lode.Store, part: str = "ours") -> Snapshot:
    """A snapshot that moved behind another one."""
    transaction = prepared(store, part)
    write(store, f"before-{part}")
    return transaction.commit()


# -- what a manifest tells ---------------------------------------------------------------------------


def test_a_snapshot_tells_how_often_its_commit_was_rebased() -> None:
    store = MemoryStore()
    assert write(store, "a").rebases == 0
    snapshot = rebased(store)
    assert snapshot.rebases == 1
    assert dataset(store).latest().rebases == 1


def test_a_snapshot_of_a_volume_tells_its_rebases_too() -> None:
    store = MemoryStore()
    ours, theirs = (lode.Volume("disk", store, total_length=12) for _ in range(2))
    assert ours.commit([ours.stage_write_at(0, b"one.")]).rebases == 0
    theirs.commit([theirs.stage_write_at(4, b"two.")])
    assert ours.commit([ours.stage_write_at(8, b"ours")]).rebases == 1


def test_who_met_nobody_recalls_nothing() -> None:
    store = MemoryStore()
    write(store, "a")
    assert write(store, "b").manifest.recent == {}


def test_who_was_rebased_recalls_the_snapshots_before_it_and_what_they_touched() -> None:
    store = MemoryStore()
    first = write(store, "a")
    snapshot = rebased(store)
    assert snapshot.manifest.recent == {snapshot.parent_id: ["part=before-ours"]}
    following = rebased(store, "next")
    assert list(following.manifest.recent) == [following.parent_id, snapshot.id, snapshot.parent_id]
    assert first.id not in following.manifest.recent


def test_a_recall_is_bounded_in_number() -> None:
    store = MemoryStore()
    for number in range(MAX_RECENT_COMMITS):
        snapshot = rebased(store, f"p{number}")
    assert len(snapshot.manifest.recent) == MAX_RECENT_COMMITS


def test_a_recall_is_bounded_in_size_however_long_partitions_are() -> None:
    store = MemoryStore()
    for number in range(8):
        snapshot = rebased(store, f"{number}-{'long' * 200}")
    recalled = snapshot.manifest.recent
    assert 0 < len(json.dumps(recalled)) < MAX_RECENT_CHARS + 500


def test_a_recall_does_not_outlive_the_crowd() -> None:
    store = MemoryStore()
    for number in range(3):
        snapshot = rebased(store, f"p{number}")
    lengths = []
    alone = dataset(store)
    while snapshot.manifest.recent:
        snapshot = alone.write([{"part": "alone"}])
        lengths.append(len(snapshot.manifest.recent))
    assert lengths == [6, 5, 4, 3, 2, 1, 0]


def test_a_damaged_recall_is_refused_by_name() -> None:
    store = MemoryStore()
    snapshot = rebased(store)
    path = f"datasets/events/segments/{snapshot.id}/manifest.json"
    damaged = json.loads(store.get(path))
    damaged["x"]["recent"] = [1]
    store.delete(path)
    store.put(path, json.dumps(damaged).encode())
    with pytest.raises(lode.ManifestInvalidError, match=r"x\.recent"):
        dataset(store).latest().manifest.recent  # noqa: B018 - a property that may refuse


# -- catching up ---------------------------------------------------------------------------------------


def catching_up(store: CountingStore, transaction: Transaction) -> list[str]:
    """The manifests that are read to commit this transaction."""
    store.reset()
    transaction.commit()
    return [path for method, path in store.events if method == "get" and path.endswith("manifest.json")]


def test_catching_up_with_a_crowd_takes_one_read() -> None:
    store = CountingStore(MemoryStore())
    rebased(store, "first")
    ours = prepared(store)
    for number in range(10):
        rebased(store, f"p{number}")
    # Of the twenty snapshots that came first, one is read.
    assert len(catching_up(store, ours)) == 1


def test_catching_up_with_snapshots_nobody_recalls_reads_each() -> None:
    store = CountingStore(MemoryStore())
    write(store, "first")
    ours = prepared(store)
    for number in range(5):
        write(store, f"p{number}")
    assert len(catching_up(store, ours)) == 5


def test_catching_up_beyond_what_is_recalled_goes_on_reading_there() -> None:
    store = CountingStore(MemoryStore())
    rebased(store, "first")
    ours = prepared(store)
    for number in range(MAX_RECENT_COMMITS):
        rebased(store, f"p{number}")
    for entry in list(store.list("datasets/events/history/")):
        store.delete(entry.path)  # these would take fewer reads
    read = catching_up(store, ours)
    # The head recalls half of what came; its last one recalls the other half.
    assert len(read) == 2
    assert dataset(store).latest().sequence == 2 * MAX_RECENT_COMMITS + 3


def test_a_snapshot_that_is_only_recalled_is_a_conflict_like_any_other() -> None:
    store = MemoryStore()
    write(store, "first")
    ours = prepared(store, "same")
    theirs = write(store, "same")
    rebased(store, "other")
    with pytest.raises(lode.SnapshotConflictError, match=f"{theirs.id} also wrote partition part=same"):
        ours.commit()


class Deaf(CountingStore):
    """Loses the answer of one swap of the pointer, and lets others commit before anybody looks."""

    armed = False

    def _compare_and_swap(self, path: str, expected: bytes | None, replacement: bytes) -> bool:
        done = super()._compare_and_swap(path, expected, replacement)
        if path == POINTER and self.armed:
            self.armed = False
            rebased(self, "rival-1")
            rebased(self, "rival-2")
            raise OutcomeUnknownError("the answer is lost")
        return done


def test_our_own_commit_is_found_among_those_recalled() -> None:
    store = Deaf(MemoryStore())
    write(store, "first")
    ours = prepared(store)
    store.armed = True
    snapshot = ours.commit()
    assert snapshot.commit is not None
    assert not snapshot.commit.replayed
    assert [found.sequence for found in dataset(store).snapshots()] == [1, 2, 3, 4, 5, 6]
    assert dataset(store).snapshots()[1].id == snapshot.id


def test_the_same_key_behind_a_crowd_is_found_by_one_read() -> None:
    store = CountingStore(MemoryStore())
    write(store, "first")
    ours = dataset(store).transaction(idempotency_key="job")
    ours.stage([{"part": "ours"}])
    theirs = dataset(store).write([{"part": "ours"}], idempotency_key="job")
    for number in range(3):
        rebased(store, f"p{number}")
    snapshot = ours.commit()
    assert snapshot.id == theirs.id
    assert snapshot.commit is not None
    assert snapshot.commit.replayed


# -- looking first -------------------------------------------------------------------------------------


def test_who_met_others_last_time_looks_before_it_declares() -> None:
    store = CountingStore(MemoryStore())
    write(store, "first")
    crowded = dataset(store)
    first = crowded.transaction()
    first.stage([{"part": "ours"}])
    write(store, "theirs")
    first.commit()
    write(store, "theirs")
    store.reset()
    crowded.write([{"part": "ours"}])
    methods = [(method, path.rpartition("/")[2]) for method, path in store.events]
    assert methods.count(("compare_and_swap", "latest")) == 1
    assert [step for step in methods if step[1] == "intent.json"] == [("put", "intent.json")]


def test_who_is_alone_looks_at_nothing() -> None:
    store = CountingStore(MemoryStore())
    alone = dataset(store)
    alone.write([{"part": "a"}])
    store.reset()
    alone.write([{"part": "a"}])
    assert [method for method, _ in store.events if method == "get"] == []


# -- contention --------------------------------------------------------------------------------------------


class Clock:
    """Time that passes only when somebody sleeps or works."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def contention(self, *, chance: float = 1.0, nearby: bool = False) -> Contention:
        runtime = Runtime(monotonic=lambda: self.now, sleep=self.sleep, random=lambda: chance)
        return Contention(runtime, nearby=nearby)


def commit_once(clock: Clock, contention: Contention, commits: int, *, work: float = 0.02) -> None:
    with contention.hold_turn(None):
        clock.now += work
        contention.end_turn(commits)


def hold_turn(contention: Contention) -> bool:
    with contention.hold_turn(None) as crowded:
        return crowded


def test_who_is_alone_never_waits() -> None:
    clock = Clock()
    contention = clock.contention()
    for _ in range(3):
        commit_once(clock, contention, commits=0)
    assert clock.slept == []


def test_after_a_commit_beside_another_writer_that_one_has_its_turn_first() -> None:
    clock = Clock()
    contention = clock.contention()
    commit_once(clock, contention, commits=1)
    hold_turn(contention)
    assert clock.slept == [pytest.approx(0.02)]


def test_a_writer_that_lost_many_times_does_not_wait_longer_for_that() -> None:
    clock = Clock()
    contention = clock.contention()
    commit_once(clock, contention, commits=7)
    hold_turn(contention)
    assert clock.slept == [pytest.approx(0.02)]


def test_the_time_a_writer_needed_for_its_own_work_counts_as_waiting() -> None:
    clock = Clock()
    contention = clock.contention()
    commit_once(clock, contention, commits=7)
    clock.now += 0.02
    hold_turn(contention)
    assert clock.slept == []


def test_nobody_waits_longer_than_the_longest_pause() -> None:
    clock = Clock()
    contention = clock.contention()
    commit_once(clock, contention, commits=1000, work=5.0)
    hold_turn(contention)
    contention.give_way()
    assert clock.slept == [MAX_PAUSE_SECONDS, MAX_PAUSE_SECONDS]


def test_another_writer_is_forgotten_after_three_commits_without_one() -> None:
    clock = Clock()
    contention = clock.contention()
    commit_once(clock, contention, commits=MAX_CONTENDERS)
    crowded = []
    for _ in range(4):
        crowded.append(hold_turn(contention))
        contention.end_turn(0)
    assert crowded == [True, True, True, False]


def test_on_a_disk_a_crowd_is_forgotten_by_halves() -> None:
    clock = Clock()
    contention = clock.contention(nearby=True)
    commit_once(clock, contention, commits=MAX_CONTENDERS)
    crowded = []
    for _ in range(6):
        crowded.append(hold_turn(contention))
        contention.end_turn(0)
    assert crowded == [True, True, True, True, True, False]


def test_on_a_disk_nobody_waits() -> None:
    clock = Clock()
    contention = clock.contention(nearby=True)
    commit_once(clock, contention, commits=8)
    hold_turn(contention)
    contention.give_way()
    assert clock.slept == []


def queueing(store: LocalStore, *, patience: float) -> AbstractContextManager[None]:
    return store.queue("datasets/events/latest", patience, 0.001)


def test_on_a_disk_a_crowd_stands_in_line(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put("datasets/events/other", b"")
    order = []

    def come(name: str) -> None:
        with queueing(store, patience=30):
            order.append(name)

    with queueing(store, patience=30):
        other = threading.Thread(target=come, args=("second",))
        other.start()
        other.join(0.05)
        order.append("first")
    other.join()
    assert order == ["first", "second"]


def test_who_is_in_line_behind_a_dead_end_goes_on_alone(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put("datasets/events/other", b"")
    with queueing(store, patience=30), queueing(store, patience=0.01):
        assert write(store, "a").sequence == 1


# -- publishing on a disk ----------------------------------------------------------------------------------


def same_file(*files: Path) -> bool:
    return len({file.stat().st_ino for file in files}) == 1


@pytest.mark.parametrize("durable", [False, True])
def test_on_a_disk_the_copies_of_a_manifest_take_no_room(tmp_path: Path, durable: bool) -> None:
    snapshot = write(lode.open_store(tmp_path, durable=durable), "a")
    root = tmp_path / "datasets/events"
    folder = root / "segments" / snapshot.id
    copy = root / "partitions/part=a/segments" / snapshot.id / "manifest.json"
    assert copy.read_bytes() == (folder / "manifest.json").read_bytes()
    assert same_file(folder / "intent.json", copy)
    # Damage to one of these leaves the other.
    assert not same_file(folder / "intent.json", folder / "manifest.json")


def test_a_link_never_replaces_an_object(tmp_path: Path) -> None:
    store = lode.open_store(tmp_path)
    assert isinstance(store, LocalStore)
    store.put("a/source", b"new")
    store.put("a/taken", b"old")
    with pytest.raises(lode.PathExistsError, match="a/taken"):
        store.link("a/source", "a/taken")
    assert store.get("a/taken") == b"old"


def test_a_link_to_what_is_not_there_is_refused(tmp_path: Path) -> None:
    store = lode.open_store(tmp_path)
    assert isinstance(store, LocalStore)
    with pytest.raises(lode.NotFoundError, match="a/nothing"):
        store.link("a/nothing", "a/new")
    assert not store.exists("a/new")


# -- who wrote ---------------------------------------------------------------------------------------------


def test_a_snapshot_tells_who_wrote_it_when_that_was_said() -> None:
    store = MemoryStore()
    said = lode.Dataset("events", store, writer="crawler-7").write(b"x")
    assert (said.writer, lode.Dataset("events", store).latest().writer) == ("crawler-7", "crawler-7")
    assert lode.Dataset("other", store).write(b"x").writer is None


def test_a_volume_tells_who_wrote_it_also_after_a_trip_to_another_process(tmp_path: Path) -> None:
    volume = lode.Volume("disk", tmp_path, total_length=8, writer="crawler-7")
    assert volume.commit([volume.stage_write_at(0, b"x")]).writer == "crawler-7"
    copy: lode.Volume = pickle.loads(pickle.dumps(volume))
    assert copy.commit([copy.stage_write_at(4, b"x")]).writer == "crawler-7"


def test_the_environment_names_the_writer_where_the_program_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LODE_WRITER", "nightly")
    assert lode.Dataset("events", "memory://").write(b"x").writer == "nightly"
    assert lode.Dataset("events", "memory://", writer="me").write(b"x").writer == "me"


def test_the_writer_of_an_idempotency_key_is_who_wrote() -> None:
    snapshot = lode.Dataset("events", MemoryStore()).write(b"x", idempotency_key=("crawler", "7"))
    assert snapshot.writer == "crawler"


def test_a_writer_without_a_name_is_refused() -> None:
    with pytest.raises(lode.InvalidOptionError, match="a writer is a name"):
        lode.Dataset("events", "memory://", writer="")


# -- groups ------------------------------------------------------------------------------------------------


def test_a_small_group_among_large_ones_does_not_end_the_crowd() -> None:
    assert crowd_after(16, 3) == 8
    assert crowd_after(16, 9) == 14
    assert crowd_after(16, 20) == 20


def test_a_crowd_that_ends_is_forgotten_after_a_few_commits() -> None:
    crowd, commits = 1000, 0
    while crowd >= 3:
        crowd, commits = crowd_after(crowd, 1), commits + 1
    assert commits == 9


def test_a_leader_waits_as_long_as_the_writes_of_its_members_take() -> None:
    clock = Clock()
    contention = clock.contention()
    contention.observe_write(0.002)
    alone = next(contention.gathering(16))[0]
    contention.observe_group([0.05, 0.04, 0.06])
    assert next(contention.gathering(16))[0] == pytest.approx(alone * 25)


def test_where_reads_take_longer_than_writes_a_leader_waits_for_those() -> None:
    contention = Clock().contention()
    contention.observe_write(0.03)
    by_writes = next(contention.gathering(16))[0]
    contention.observe_read(0.01)
    assert next(contention.gathering(16))[0] == by_writes
    contention.observe_read(0.17)
    assert next(contention.gathering(16))[0] > by_writes


def test_a_leader_looks_early_whether_all_are_there_and_goes_on_with_most_of_them_later() -> None:
    contention = Clock().contention()
    contention.observe_write(0.03)
    steps = list(contention.gathering(16))
    assert [enough for _, enough in steps] == [16, 16, 16, 16, 12, 12, 12, 12]
    whole = sum(pause for pause, _ in steps[:5])
    assert steps[0][0] == pytest.approx(whole / 4)


def test_a_leader_that_does_not_know_how_many_come_waits_the_whole_time() -> None:
    contention = Clock().contention()
    contention.observe_write(0.03)
    assert next(contention.gathering(1))[0] == pytest.approx(
        sum(pause for pause, _ in list(contention.gathering(2))[:5]), rel=0.1
    )


def test_no_manifest_can_make_a_leader_or_a_member_wait_for_minutes() -> None:
    contention = Clock().contention()
    contention.observe_write(MAX_PAUSE_SECONDS)
    assert sum(pause for pause, _ in contention.gathering(MAX_CROWD)) < 60
    assert next(iter(contention.pauses(MAX_CROWD, 5, late=False))) < 60


def test_no_slot_can_make_a_leader_wait_long() -> None:
    clock = Clock()
    contention = clock.contention()
    contention.observe_group([1e300, 1e300, -1.0])
    assert contention.request_seconds == MAX_PAUSE_SECONDS


def test_a_member_that_came_late_looks_soon() -> None:
    clock = Clock()
    contention = clock.contention(chance=0.0)
    contention.observe_write(0.03)
    contention.observe(1)
    in_time = next(iter(contention.pauses(16, 5, late=False)))
    late = next(iter(contention.pauses(16, 5, late=True)))
    assert late < in_time / 3
    clock.now += 10 * in_time
    assert next(iter(contention.pauses(16, 5, late=False))) == late


def test_a_member_looks_a_bit_sooner_than_the_result_was_there_the_last_time() -> None:
    contention = Clock().contention()
    contention.observe_write(0.03)
    contention.observe_wait(0.2, 3)
    first = next(iter(contention.pauses(16, 5, late=False)))
    assert 0.1 < first < 0.2
    contention.observe_wait(first, 0)
    assert 0.05 < next(iter(contention.pauses(16, 5, late=False))) < first


def test_a_member_never_waits_longer_than_a_group_takes_before_it_looks() -> None:
    contention = Clock().contention()
    contention.observe_write(0.03)
    contention.observe_wait(1e6, 5)
    assert next(iter(contention.pauses(16, 5, late=False))) < 1


def test_if_the_leader_is_gone_the_first_member_leads_before_the_others() -> None:
    contention = Clock().contention()
    contention.observe_write(0.03)
    waits = [sum(contention.pauses(16, slot, late=False)) for slot in (1, 2, 8, 15, None)]
    assert waits == sorted(waits)
    assert waits[0] < waits[1]


# -- how long a crowd is remembered --------------------------------------------------------------------


@pytest.mark.parametrize(("age", "waits"), [(3, True), (15, True), (120, False)])
def test_a_new_writer_waits_with_a_large_group_that_takes_longer_than_two_seconds(
    age: int, waits: bool
) -> None:
    store = MemoryStore()
    head = write(store, "a").manifest
    head = msgspec.structs.replace(head, x={**(head.x or {}), "crowd": 2_000})
    born = rfc3339_to_ns(head.created_at)
    runtime = Runtime(now_ns=lambda: born + age * 10**9)
    assert Contention(runtime, nearby=False).is_crowd(head) is waits
