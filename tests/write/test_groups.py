"""Group commit: every interleaving of writers that commit each other's drafts, and mutants of its rules."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

import lode
from lode.errors import NotFoundError, SnapshotConflictError, TransactionClosedError
from lode.evolution import evolve
from lode.format.group import decode_group
from lode.format.manifest import MAX_CROWD
from lode.read import resolve
from lode.store.memory import MemoryStore
from lode.store.wrappers import CountingStore, StoreWrapper
from lode.testing.explore import Report, Scenario, Violation, explore
from lode.testing.protocol import (
    SPLIT,
    WHOLE,
    Holds,
    dataset,
    published,
    reader,
    snapshot_id,
    still,
    sweeper,
    writer,
)
from lode.testing.walk import walks
from lode.upkeep.published import PublishedManifests
from lode.write import commit, contention, group, recovery
from lode.write.commit import Committer
from lode.write.contention import Contention
from lode.write.intent import Intents
from lode.write.publish import Publisher
from lode.write.rebase import Touched

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lode.evolution import Evolution
    from lode.format.paths import Layout
    from lode.read.resolve import EncodedManifest
    from lode.testing.actor import Actor
    from lode.testing.scenario import View
    from lode.testing.sim import Contents

IDS = {"a": snapshot_id(1), "b": snapshot_id(2), "c": snapshot_id(3)}
HEAD = 7
HEAD_ID = snapshot_id(HEAD)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """As few slots and looks as the writers need: a wait of any length is one of the interleavings."""
    monkeypatch.setattr(group, "SPARE_SLOTS", 0)
    monkeypatch.setattr(group, "UNKNOWN_SLOTS", 2)
    monkeypatch.setattr(group, "MAX_CROWD", 1)
    monkeypatch.setattr(recovery, "GROUP_LOOKS", 0)
    monkeypatch.setattr(contention, "MIN_GROUP", 2)
    monkeypatch.setattr(Contention, "pauses", lambda *_, late: [0.0] * (1 if late else 2))
    monkeypatch.setattr(Contention, "gathering", lambda *_: [(0.0, 0)])
    monkeypatch.setattr(commit, "POINTER_LOOK", 2)


def crowd(size: int = 3, *, partition: str | None = None) -> dict[str, bytes]:
    """A dataset whose head was committed by a group, so that every writer waits in one."""
    found = explore(Scenario(actors={"w": writer(HEAD, partition=partition)})).endings[0].view.store
    return {path: _grouped(data, size) if path.endswith(".json") else data for path, data in found.items()}


def _grouped(data: bytes, size: int) -> bytes:
    document = json.loads(data)
    if "snapshot_id" not in document:
        return data
    document["x"]["group"] = {"place": size, "size": size, "leader": snapshot_id(HEAD)}
    return json.dumps(document).encode()


class Prepared(StoreWrapper):
    """The store of a writer that has opened the dataset and staged its file before anything else happens."""

    def __init__(self, inner: Any, initial: Mapping[str, bytes]) -> None:
        super().__init__(inner)
        self._initial = initial
        self._begun = False

    def around(self, method: str, path: str, call: Callable[[], Any]) -> Any:
        if method == "put" and "/data/" in path:
            return None
        self._begun = self._begun or method != "get"
        if self._begun:
            return call()
        if path not in self._initial:
            raise NotFoundError(path)
        return self._initial[path]


def prepared(number: int, initial: dict[str, bytes], **options: Any) -> Actor:
    """Return an actor whose first call puts its intent. Its file becomes part of ``initial``."""
    staged = explore(Scenario(actors={"w": writer(number, **options)}, initial=initial)).endings[0].view.store
    files = {path: data for path, data in staged.items() if "/data/" in path and path not in initial}
    opened = dict(initial)
    initial.update(files)
    write = writer(number, **options)
    return lambda store: write(Prepared(store, opened))


class GroupHolds(Holds):
    """What must hold, and that a writer which a sweep refused is not in history."""

    def __call__(self, view: View) -> None:
        super().__call__(view)
        ids = {manifest.snapshot_id for manifest in published(view.store)}
        for name, error in view.raised.items():
            if isinstance(error, TransactionClosedError):
                assert IDS[name] not in ids, f"{name} was refused, and {IDS[name]} is published"


def explored(
    layout: Layout, actors: Mapping[str, Actor], initial: Mapping[str, bytes], **options: Any
) -> Report:
    scenario = Scenario(actors=actors, initial=initial, **options)
    return explore(scenario, check=GroupHolds(layout, IDS, ("r",)))


def two(**options: Any) -> tuple[dict[str, Actor], dict[str, bytes]]:
    """Two writers that are about to put their intents, and the store they share."""
    initial = crowd(2)
    return {name: prepared(n, initial, append=True, **options) for name, n in (("a", 1), ("b", 2))}, initial


def beginning() -> tuple[dict[str, Actor], dict[str, bytes]]:
    """Two writers after a commit that was rebased so often that a crowd of unknown size begins."""
    initial = {path: _rebased(data) if path.endswith(".json") else data for path, data in crowd(1).items()}
    return {name: prepared(n, initial, append=True) for name, n in (("a", 1), ("b", 2))}, initial


def _rebased(data: bytes) -> bytes:
    document = json.loads(data)
    if "snapshot_id" not in document:
        return data
    del document["x"]["group"]
    document["x"]["rebases"] = contention.MIN_REBASES
    return json.dumps(document).encode()


def group_sizes(store: Contents) -> set[int]:
    return {each.group.size for each in published(store) if each.snapshot_id != HEAD_ID}


def sizes(report: Report) -> set[int]:
    """The sizes of all groups in all endings."""
    return {size for ending in report.endings for size in group_sizes(ending.view.store)}


# -- what holds --------------------------------------------------------------------------------------


def test_two_writers_in_a_crowd_both_commit_alone_or_together_whatever_the_order() -> None:
    report = explored(WHOLE, *two())
    assert sizes(report) == {1, 2}
    assert report.count(lambda view: len(view.returned) == 2) == report.interleavings


def test_a_reader_beside_a_group_needs_few_reads_and_sees_all_that_was_acknowledged() -> None:
    actors, initial = two()
    report = explored(WHOLE, actors | {"r": reader()}, initial, track_order=True)
    assert report.calls["r"] <= 6


@pytest.mark.parametrize("delayed", [False, True], ids=["lost", "late"])
def test_a_group_survives_a_crash_and_an_answer_that_does_not_come(delayed: bool) -> None:
    recovery = writer(9, append=True)
    explored(WHOLE, *two(), crashes=1, unknown=1, delayed=delayed, recovery=recovery)


def test_a_crowd_that_begins_survives_a_crash_though_a_draft_is_in_two_slots() -> None:
    report = explored(WHOLE, *beginning(), crashes=1, recovery=writer(9, append=True))
    assert sizes(report) == {1, 2}


def test_a_group_survives_calls_that_fail() -> None:
    explored(WHOLE, *two(), crashes=1, failures=1, recovery=writer(9, append=True))


def test_a_sweep_beside_a_group_removes_no_file_of_a_member() -> None:
    actors, initial = two()
    # A crash is one of the interleavings: its writer is not scheduled again, and every state is checked.
    explored(WHOLE, actors | {"s": sweeper()}, initial)


def test_writers_under_one_key_are_not_committed_together() -> None:
    initial = crowd(2)
    actors = {name: prepared(n, initial, append=True, key="k") for name, n in (("a", 1), ("b", 2))}
    explored(WHOLE, actors, initial, crashes=1, recovery=writer(9, key="k"))


def test_writers_of_different_partitions_commit_together() -> None:
    initial = crowd(2, partition="first")
    actors = {name: prepared(n, initial, partition=name) for name, n in (("a", 1), ("b", 2))}
    report = explored(SPLIT, actors, initial)
    assert 2 in sizes(report)
    assert report.count(lambda view: len(view.returned) == 2) == report.interleavings


def test_of_two_writers_of_one_partition_one_is_refused_and_never_appears() -> None:
    initial = crowd(2, partition="first")
    actors = {name: prepared(n, initial, partition="same") for name, n in (("a", 1), ("b", 2))}
    report = explored(SPLIT, actors, initial, crashes=1, recovery=writer(9, partition="z"))
    assert sizes(report) == {1}
    for ending in report.endings:
        assert all(isinstance(error, SnapshotConflictError) for error in ending.view.raised.values())


def test_a_writer_that_knows_no_crowd_beside_two_that_wait() -> None:
    actors, initial = two()
    alone = dict(initial)
    for path in alone:
        if path.endswith(("manifest.json", "intent.json")):
            document = json.loads(alone[path])
            del document["x"]["group"]
            alone[path] = json.dumps(document).encode()
    both = {"a": actors["a"], "c": prepared(3, alone, append=True)}
    explored(WHOLE, both, {**alone, **initial}, crashes=1, recovery=writer(9, append=True))


def test_three_writers_and_a_reader_in_a_crowd_on_random_walks() -> None:
    initial = crowd(3)
    actors = {name: prepared(n, initial, append=True) for name, n in (("a", 1), ("b", 2), ("c", 3))}
    scenario = Scenario(
        actors={**actors, "r": reader(), "s": sweeper()},
        initial=initial,
        crashes=2,
        unknown=2,
        delayed=True,
        failures=1,
        recovery=writer(9, append=True),
        track_order=True,
    )
    walks(scenario, range(50), check=GroupHolds(WHOLE, IDS, ("r",)))


@pytest.mark.soak
def test_three_writers_in_a_crowd_with_a_crash_whatever_the_order() -> None:
    initial = crowd(3)
    actors = {name: prepared(n, initial, append=True) for name, n in (("a", 1), ("b", 2), ("c", 3))}
    report = explored(WHOLE, actors, initial, crashes=1, recovery=writer(9, append=True))
    assert sizes(report) == {1, 2, 3}


# -- what each rule is for ---------------------------------------------------------------------------


def breaks(
    match: str | None, actors: Mapping[str, Actor], initial: Mapping[str, bytes], **options: Any
) -> None:
    with pytest.raises(Violation, match=match):
        explored(WHOLE, actors, initial, **options)


def test_replacing_an_intent_after_its_swap_was_sent_forks(monkeypatch: pytest.MonkeyPatch) -> None:
    attempt: Any = Committer._attempt

    def thawed(self: Committer[Any], draft: Any, tally: Any) -> bool:
        tally.declared_on = None
        won: bool = attempt(self, draft, tally)
        return won

    monkeypatch.setattr(Committer, "_attempt", thawed)
    breaks(None, *two(), unknown=1, delayed=True)


def test_acknowledging_a_member_before_its_leader_is_published_hides_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    catch_up: Any = Committer._catch_up

    def early(self: Committer[Any], draft: Any, tally: Any, *, lost: bool) -> Any:
        own = self._chain.manifest(draft.snapshot_id)
        return own if own is not None else catch_up(self, draft, tally, lost=lost)

    monkeypatch.setattr(Committer, "_catch_up", early)
    breaks("is committed, and it is not in", *two())


def test_publishing_a_member_from_its_own_intent_forks(monkeypatch: pytest.MonkeyPatch) -> None:
    put_manifest: Any = Publisher._put_manifest

    def own(self: Publisher[Any], placed: EncodedManifest[Any]) -> None:
        put_manifest(self, self._chain.intent(placed.manifest.snapshot_id) or placed)

    monkeypatch.setattr(Publisher, "_put_manifest", own)
    breaks(None, *two())


def test_publishing_the_leader_first_shows_a_history_with_a_hole(monkeypatch: pytest.MonkeyPatch) -> None:
    publish: Any = Publisher.publish

    def leader_first(self: Publisher[Any], placed: EncodedManifest[Any]) -> None:
        self._put_manifest(placed)
        publish(self, placed)

    monkeypatch.setattr(Publisher, "publish", leader_first)
    breaks(None, *two())


def test_a_sweep_that_does_not_know_the_members_of_a_group_removes_their_files(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mention: Any = PublishedManifests.mention

    def forget(self: PublishedManifests, snapshot_id: str | None, by: str) -> None:
        if snapshot_id is None or by == snapshot_id or snapshot_id == HEAD_ID:
            mention(self, snapshot_id, by)

    monkeypatch.setattr(PublishedManifests, "mention", forget)
    actors, initial = two()
    breaks("is missing", actors | {"s": sweeper()}, initial)


def test_waiting_in_a_slot_without_an_intent_loses_files_to_a_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    declare: Any = Intents.declare

    def later(self: Intents[Any], draft: Any, placed: Any) -> None:
        if placed.before or draft.landed is None:
            draft.declared = None
            declare(self, draft, placed)
        draft.declared = placed

    monkeypatch.setattr(Intents, "declare", later)
    actors, initial = two()
    breaks("is missing", actors | {"s": sweeper()}, initial)


def test_a_group_with_one_key_twice_commits_it_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    members: Any = group.Groups._members

    def unchecked(self: group.Groups[Any], draft: Any, found: Any) -> Any:
        key, draft.idempotency = draft.idempotency, None
        try:
            return members(self, draft, found)
        finally:
            draft.idempotency = key

    monkeypatch.setattr(group.Groups, "_members", unchecked)
    initial = crowd(2)
    actors = {name: prepared(n, initial, append=True, key="k") for name, n in (("a", 1), ("b", 2))}
    breaks("two snapshots have the key", actors, initial)


def test_a_group_that_ignores_overlaps_commits_what_must_be_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Touched, "overlaps", lambda *_: False)
    initial = crowd(2, partition="first")
    actors = {name: prepared(n, initial, partition="same") for name, n in (("a", 1), ("b", 2))}
    report = explored(SPLIT, actors, initial)
    assert 2 in sizes(report)


def test_the_intent_of_a_leader_holds_the_exact_manifests_that_are_published() -> None:
    report = explored(WHOLE, *two())
    for ending in report.endings:
        store = ending.view.store
        for path, data in store.items():
            if path.endswith("intent.json") and decode_group(data, path)[1]:
                leader, members = decode_group(data, path)
                found = {bytes(value) for name, value in store.items() if name.endswith("manifest.json")}
                if leader in found:
                    assert set(members) <= found


def test_a_leader_that_version_0_1_published_with_its_group_is_accepted() -> None:
    report = explored(WHOLE, *two())
    together = next(each.view.store for each in report.endings if 2 in group_sizes(each.view.store))
    leader = next(
        manifest.snapshot_id
        for manifest in published(together)
        if manifest.group.size == 2 == manifest.group.place and manifest.snapshot_id != HEAD_ID
    )
    folder = f"datasets/d/snapshots/{leader}"
    foreign = {**together, f"{folder}/manifest.json": together[f"{folder}/intent.json"]}
    report = explored(WHOLE, {"c": writer(3, append=True)}, foreign)
    assert report.endings[0].view.returned == {"c": snapshot_id(3)}


def stored(contents: Mapping[str, bytes]) -> MemoryStore:
    store = MemoryStore()
    for path, data in contents.items():
        store.put(path, data)
    return store


def swap_group(store: MemoryStore, initial: Mapping[str, bytes], together: Contents, leader: str) -> None:
    """Bring a store to the moment when all of a group but the manifest of its leader is there."""
    for path, data in together.items():
        if path.endswith("/latest"):
            store.compare_and_swap(path, initial[path], data)
        elif path not in initial and path != leader:
            store.put(path, data)


class Distant(CountingStore):
    """A store whose requests take their time."""

    nearby = False


@pytest.mark.parametrize("is_published", [True, False])
def test_a_writer_reads_a_large_group_only_if_it_has_to_publish_it(
    monkeypatch: pytest.MonkeyPatch, is_published: bool
) -> None:
    actors, initial = two()
    together = next(
        each.view.store
        for each in explored(WHOLE, actors, initial).endings
        if 2 in group_sizes(each.view.store)
    )
    id = together["datasets/d/latest"].decode()
    leader, intent = (f"datasets/d/snapshots/{id}/{name}.json" for name in ("manifest", "intent"))
    monkeypatch.setattr(resolve, "LARGE_INTENT_BYTES", len(together[intent]) - 1)
    monkeypatch.setattr(recovery, "GROUP_LOOKS", 3)
    inner = stored(initial)
    before_the_leader: list[tuple[str, str]] = []

    def sleep(_: float) -> None:
        if ("get_range", intent) in store.events and not inner.exists(leader):
            before_the_leader[:] = store.events
            if is_published:
                inner.put(leader, together[leader])

    store = Distant(inner)
    waiting = lode.Dataset("d", store, runtime=replace(still(3), sleep=sleep))
    waiting.transaction().abort()  # it knows the head before the group
    swap_group(inner, initial, together, leader)
    store.reset()
    own = waiting.write(b"c", on_conflict="append")
    assert own.parent_id == id
    assert inner.get(leader) == together[leader]
    assert before_the_leader
    assert ("get", intent) not in before_the_leader
    assert (("put", leader) in store.events) is not is_published


def test_a_damaged_intent_makes_no_writer_wait_for_more_than_the_largest_crowd(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = stored(crowd())
    chain = lode.Dataset("d", store).chain
    store.put(chain.paths.intent(IDS["a"]), b'"snapshot_id"' * 100_000)
    monkeypatch.setattr(resolve, "LARGE_INTENT_BYTES", 1_300)
    assert chain._start_of_intent(IDS["a"]) == (None, MAX_CROWD)


def test_a_retry_under_the_key_of_a_member_publishes_its_group_before_it_returns() -> None:
    initial = crowd(2)
    actors = {
        "a": prepared(1, initial, append=True, key="k"),
        "b": prepared(2, initial, append=True),
    }
    report = explored(WHOLE, actors, initial)
    together = next(
        each.view.store
        for each in report.endings
        for found in published(each.view.store)
        if found.snapshot_id == IDS["a"] and found.group.leader == IDS["b"]
    )
    leader = f"datasets/d/snapshots/{IDS['b']}/manifest.json"
    store = stored(initial)
    retrying = dataset(store, 3)
    retrying.transaction().abort()  # it knows the head before the group
    swap_group(store, initial, together, leader)
    with retrying.transaction(idempotency_key="k", on_conflict="append") as transaction:
        assert transaction.commit().id == IDS["a"]
    assert store.exists(leader)


def test_a_draft_whose_columns_are_those_of_the_head_may_follow_any_member() -> None:
    target = lode.Dataset("d", MemoryStore(), codec=lode.Parquet({"n": "int64"}))
    target.write([{"n": 1}])

    def follows(change: Evolution) -> str:
        with target.transaction(on_conflict="append", evolve=change) as transaction:
            transaction.stage([{"n": 2}])
            transaction.commit()
            return transaction._draft.follows

    assert follows(lambda definition: definition) == "any"
    assert follows(lambda definition: evolve(definition, add={"more": "string"})) == "head"
    assert follows(lambda definition: evolve(definition, add={"more": "string"})) == "any"
