"""Every interleaving of committers to one volume, with crashes and lost answers at every possible point.

The actors are the library itself. After every step history is one line, what is visible is whole, and every
promise made to a caller is kept; from every content the store ever has, a new process that asks what is
missing stages exactly that and completes the volume.
"""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

import lode
from lode.errors import CommitError, NoSnapshotsError, OverlappingBlocksError
from lode.format.paths import MANIFEST
from lode.format.volume import VolumeManifest, decode_volume_manifest
from lode.testing.explore import RECOVERY, Report, Scenario, View, Violation, explore
from lode.testing.protocol import snapshot_id, still
from lode.testing.walk import walks
from lode.write.blocks import VolumeDraft

if TYPE_CHECKING:
    from lode.testing.actor import Actor
    from lode.testing.sim import Contents, SwapStore

LENGTH = 12
IDS = {"a": snapshot_id(1), "b": snapshot_id(2), "c": snapshot_id(3), "d": snapshot_id(4)}


def volume(store: lode.Store, number: int = 0, retries: int = 0) -> lode.Volume:
    return lode.Volume("v", store, LENGTH, retry=lode.Retry(retries), runtime=still(number))


def committer(number: int, offset: int, length: int, *, retries: int = 0) -> Actor:
    """Return an actor that stages and commits one block and returns its snapshot's id."""

    def commit(store: SwapStore) -> str:
        target = volume(store, number, retries)
        return target.commit([target.stage_write_at(offset, bytes([number]) * length)]).id

    return commit


def read(store: SwapStore) -> tuple[str, bytes] | None:
    """Read the newest snapshot and its first block."""
    opened = volume(store)
    try:
        head = opened.latest()
    except NoSnapshotsError:
        return None
    return head.id, opened.read_at(head, head.blocks[0].offset, head.blocks[0].length)


def history(store: SwapStore) -> tuple[str, ...]:
    return tuple(snapshot.id for snapshot in volume(store).snapshots())


def resume(store: SwapStore) -> str | None:
    """Stage and commit the missing ranges; None if there are none."""
    target = volume(store, 9)
    blocks = []
    for place, (offset, length) in enumerate(target.missing()):
        blocks.append(volume(store, 90 + place).stage_write_at(offset, b"\x09" * length))
    return target.commit(blocks).id if blocks else None


class Holds:
    """The invariants of every state: called with a view, raises ``AssertionError`` on a violation."""

    def __call__(self, view: View) -> None:
        manifests = published(view.store)
        chain: tuple[str, ...] = view.ask(history)
        self._is_linear(manifests, chain)
        self._is_whole(view.store, manifests, chain)
        self._keeps_promises(view, chain)
        self._is_complete_after_recovery(view, manifests, chain)

    def _is_linear(self, manifests: dict[str, VolumeManifest], chain: tuple[str, ...]) -> None:
        assert manifests.keys() == set(chain), f"visible {chain}, published {sorted(manifests)}"
        parents = [manifests[id].parent_snapshot_id for id in chain]
        assert parents == [None, *chain[:-1]][: len(chain)], f"{chain} have the parents {parents}"
        assert [manifests[id].sequence for id in chain] == list(range(1, len(chain) + 1))

    def _is_whole(
        self, store: Contents, manifests: dict[str, VolumeManifest], chain: tuple[str, ...]
    ) -> None:
        """Every snapshot has all blocks of its parent and one more, and every block exists."""
        before: set[lode.BlockRef] = set()
        for id in chain:
            blocks = set(manifests[id].blocks)
            assert before < blocks, f"{id} lost a block or brought none"
            for block in blocks:
                assert len(store.get(block.path, b"")) == block.length, f"{block} of {id} is not whole"
            before = blocks

    def _keeps_promises(self, view: View, chain: tuple[str, ...]) -> None:
        for name, value in view.returned.items():
            if name != "r" and value is not None:
                assert value in chain, f"{name} returned {value}, which is not in {chain}"
        for name, error in view.raised.items():
            if isinstance(error, CommitError) and error.landed is False:
                assert IDS[name] not in chain, f"{name} was refused, and {IDS[name]} is visible"
        if view.returned.get("r") is not None:
            id, data = view.returned["r"]
            assert id in chain, f"the reader saw {id}, which is not in {chain}"
            assert len(set(data)) == 1, "a block is of one writer"
        for earlier in view.before("r") if "r" in view.returned else ():
            seen = chain[: chain.index(view.returned["r"][0]) + 1] if view.returned["r"] else ()
            assert view.returned[earlier] in seen, f"{earlier} was done before the reader saw only {seen}"

    def _is_complete_after_recovery(
        self, view: View, manifests: dict[str, VolumeManifest], chain: tuple[str, ...]
    ) -> None:
        if RECOVERY in view.returned:
            assert not list(manifests[chain[-1]].gaps(0, LENGTH)), "resuming left a gap"


@cache
def published(store: Contents) -> dict[str, VolumeManifest]:
    manifests = (
        decode_volume_manifest(data, path) for path, data in store.items() if path.endswith(MANIFEST)
    )
    return {manifest.snapshot_id: manifest for manifest in manifests}


DISJOINT = {"a": committer(1, 0, 4), "b": committer(2, 4, 4)}
OVERLAPPING = {"a": committer(1, 0, 6), "b": committer(2, 4, 8)}
AFTER_A_FIRST = dict(explore(Scenario(actors={"w": committer(5, 8, 2)})).endings[0].view.store)


@pytest.fixture
def explored(record_property: Any) -> Any:
    def run(scenario: Scenario) -> Report:
        report = explore(scenario, check=Holds())
        record_property("interleavings", report.interleavings)
        return report

    return run


def test_two_disjoint_committers_and_a_reader_under_two_crashes(explored: Any) -> None:
    actors = {**DISJOINT, "r": read}
    report = explored(Scenario(actors=actors, crashes=2, recovery=resume, track_order=True))
    assert report.count(lambda view: view.raised) == 0


def test_two_disjoint_committers_onto_a_history_and_a_reader_under_two_crashes(explored: Any) -> None:
    actors = {**DISJOINT, "r": read}
    scenario = Scenario(actors=actors, initial=AFTER_A_FIRST, crashes=2, recovery=resume, track_order=True)
    assert explored(scenario).count(lambda view: view.raised) == 0


def test_disjoint_committers_both_succeed_whatever_the_order(explored: Any) -> None:
    report = explored(Scenario(actors=DISJOINT))
    assert report.count(lambda view: view.returned.keys() == {"a", "b"}) == report.interleavings


@pytest.mark.parametrize("delayed", [False, True], ids=["lost", "late"])
def test_disjoint_committers_whose_answers_are_lost_or_whose_requests_land_late(
    delayed: bool, explored: Any
) -> None:
    actors = {**DISJOINT, "r": read}
    explored(Scenario(actors=actors, crashes=1, unknown=1, delayed=delayed, recovery=resume))


def test_of_two_overlapping_committers_exactly_one_wins(explored: Any) -> None:
    report = explored(Scenario(actors=OVERLAPPING, raises=(OverlappingBlocksError,)))
    for ending in report.endings:
        assert len(ending.view.returned) == len(ending.view.raised) == 1
        assert published(ending.view.store).keys() == {*ending.view.returned.values()}


def test_overlapping_committers_under_two_crashes(explored: Any) -> None:
    explored(Scenario(actors={**OVERLAPPING, "r": read}, crashes=2, recovery=resume, track_order=True))


def test_overlapping_committers_with_an_answer_that_is_lost_and_a_request_that_lands_late(
    explored: Any,
) -> None:
    explored(Scenario(actors=OVERLAPPING, crashes=1, unknown=1, delayed=True, recovery=resume))


def test_an_overlap_is_not_retried_even_where_retrying_is_allowed(explored: Any) -> None:
    actors = {"a": committer(1, 0, 6, retries=3), "b": committer(2, 4, 8, retries=3)}
    report = explored(Scenario(actors=actors))
    assert report.count(lambda view: len(view.raised) == 1) == report.interleavings
    assert max(report.calls.values()) <= 10


def test_committers_survive_failing_calls(explored: Any) -> None:
    explored(Scenario(actors={**DISJOINT, "r": read}, crashes=1, failures=1, recovery=resume))


def test_two_processes_that_resume_at_once_complete_the_volume_between_them(explored: Any) -> None:
    """Both stage the same gaps; one of them commits, and the other gets the error for overlapping bytes."""

    def resume_as(store: SwapStore, number: int) -> str | None:
        target = volume(store, number)
        blocks = [target.stage_write_at(at, b"x" * size) for at, size in target.missing()]
        return target.commit(blocks).id if blocks else None

    actors = {"a": partial(resume_as, number=1), "b": partial(resume_as, number=2)}
    scenario = Scenario(actors=actors, crashes=1, raises=(OverlappingBlocksError,), recovery=resume)
    for ending in explored(scenario).endings:
        assert len(published(ending.view.store)) <= 1


def test_a_process_that_resumes_without_settling_first_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The explorer finds the fault: the unpublished commit of a dead writer is staged twice."""
    monkeypatch.setattr(lode.Volume, "_newest_settled", lambda self: self._chain.resolve().manifest)
    with pytest.raises(Violation, match="recovery raised OverlappingBlocksError"):
        explore(Scenario(actors=DISJOINT, crashes=1, recovery=resume), check=Holds())


def test_committing_onto_a_stale_head_loses_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The explorer finds the fault: a rebase without a merge drops later blocks."""
    place_on: Any = VolumeDraft.place_on

    def place_on_nothing(self: VolumeDraft, parent: VolumeManifest | None, sequence: int) -> VolumeManifest:
        placed: VolumeManifest = place_on(self, parent, sequence)
        return replace(placed, blocks=tuple(self.blocks))

    monkeypatch.setattr(VolumeDraft, "place_on", place_on_nothing)
    with pytest.raises(Violation, match="lost a block"):
        explore(Scenario(actors=DISJOINT), check=Holds())


def test_four_committers_and_a_reader_on_random_walks(record_property: Any) -> None:
    actors = {
        "a": committer(1, 0, 3),
        "b": committer(2, 3, 3),
        "c": committer(3, 6, 3),
        "d": committer(4, 5, 2),
        "r": read,
    }
    scenario = Scenario(
        actors=actors, crashes=2, unknown=2, delayed=True, failures=1, recovery=resume, track_order=True
    )
    record_property("interleavings", walks(scenario, range(100), check=Holds()).distinct)
