"""A sweeper that takes every block for old, beside committers to one volume: no committed block is lost."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

import lode
from lode.format.paths import MANIFEST
from lode.format.volume import VolumeManifest, decode_volume_manifest
from lode.store import MemoryStore
from lode.testing.explore import Scenario, Violation, explore
from lode.testing.protocol import LONG_AFTER, snapshot_id, still
from lode.testing.walk import walks
from lode.upkeep.sweep_volume import VolumeSweeper
from lode.write.swept import SweptBlocks

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lode.testing.actor import Actor
    from lode.testing.explore import View
    from lode.testing.sim import SwapStore

LENGTH = 40


def volume(store: lode.Store, number: int = 0) -> lode.Volume:
    return lode.Volume("v", store, LENGTH, runtime=still(number))


def stage(store: SwapStore, number: int) -> lode.BlockRef:
    return volume(store, number).stage_write_at(4 * number, bytes([number]) * 4)


def committer(number: int) -> Actor:
    """An actor that stages a block and commits it, and returns its snapshot's id."""

    def commit(store: SwapStore) -> str:
        return volume(store, number).commit([stage(store, number)]).id

    return commit


def late_committer(number: int) -> Actor:
    """The same for a block that was staged by another process, long ago."""
    block = lode.BlockRef(4 * number, 4, f"volumes/v/data/{4 * number}-4-{number:016x}.bin")

    def commit(store: SwapStore) -> str:
        return volume(store, number).commit([block]).id

    return commit


def sweeper(store: SwapStore, number: int = 1) -> None:
    runtime = still(LONG_AFTER + number)
    lode.sweep(volume(store), timedelta(0), dry_run=False, runtime=runtime)


def after(*actors: Actor) -> Mapping[str, bytes]:
    contents: Mapping[str, bytes] = {}
    for actor in actors:
        contents = explore(Scenario(actors={"w": actor}, initial=contents)).endings[0].view.store
    return contents


WHOLE = after(committer(5))
STAGED = after(committer(5), partial(stage, number=1), partial(stage, number=2))


def holds(view: View) -> None:
    """History is one line, every block that a manifest names is there, every promise is kept."""
    manifests: dict[str, VolumeManifest] = {}
    for path, data in view.store.items():
        if path.endswith(f"/{MANIFEST}"):
            manifest = decode_volume_manifest(data, path)
            manifests[manifest.snapshot_id] = manifest
    parents = [manifest.parent_snapshot_id for manifest in manifests.values()]
    assert len(set(parents)) == len(parents), "history is forked"
    for manifest in manifests.values():
        before = manifests.get(manifest.parent_snapshot_id or "")
        assert before is None or set(before.blocks) <= set(manifest.blocks), "a block was dropped"
        for block in manifest.blocks:
            assert block.path in view.store, f"{block} of {manifest.snapshot_id} is missing"
    for name, value in view.returned.items():
        assert value is None or value in manifests, f"{name} was told that {value} is committed"


SCENARIOS: dict[str, tuple[Mapping[str, bytes], dict[str, Actor], dict[str, Any]]] = {
    "a crash": (WHOLE, {"a": committer(1), "s": sweeper}, {"crashes": 1, "recovery": committer(9)}),
    "a late commit": (STAGED, {"a": late_committer(1), "s": sweeper}, {"crashes": 1}),
    "two late commits": (STAGED, {"a": late_committer(1), "b": late_committer(2), "s": sweeper}, {}),
    "two sweeps": (STAGED, {"s": sweeper, "t": partial(sweeper, number=2)}, {"crashes": 1}),
    "a late request": (STAGED, {"a": late_committer(1), "s": sweeper}, {"unknown": 1, "delayed": True}),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_sweeping_beside_committers_never_takes_a_block_that_is_or_will_be_committed(
    name: str, record_property: Any
) -> None:
    initial, actors, troubles = SCENARIOS[name]
    report = explore(Scenario(actors=actors, initial=initial, **troubles), check=holds)
    record_property("interleavings", report.interleavings)


def test_two_sweeps_beside_two_committers_on_random_walks(record_property: Any) -> None:
    actors: dict[str, Actor] = {
        "a": late_committer(1),
        "b": committer(2),
        "s": sweeper,
        "t": partial(sweeper, number=2),
    }
    scenario = Scenario(actors=actors, initial=STAGED, crashes=1, unknown=1, delayed=True)
    record_property("interleavings", walks(scenario, range(150), check=holds).distinct)


def test_a_late_commit_lands_or_is_refused_by_name_and_both_happen() -> None:
    report = explore(Scenario(actors={"a": late_committer(1), "s": sweeper}, initial=STAGED), check=holds)
    landed = report.count(lambda view: view.returned.get("a") == snapshot_id(1))
    refused = report.count(
        lambda view: (
            isinstance(view.raised.get("a"), lode.TransactionClosedError)
            and f"{1:016x}.bin" in str(view.raised["a"])
        )
    )
    assert landed
    assert refused
    assert landed + refused == report.interleavings


# -- mutants: the explorer would notice ---------------------------------------------------------


def breaks(name: str) -> None:
    initial, actors, troubles = SCENARIOS[name]
    with pytest.raises(Violation, match="is missing"):
        explore(Scenario(actors=actors, initial=initial, **troubles), check=holds)


def test_committing_without_looking_at_the_list_loses_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SweptBlocks, "refuse", lambda *_: None)
    breaks("a late commit")


def test_removing_without_a_commit_loses_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    def head(self: VolumeSweeper, _candidates: set[str]) -> VolumeManifest:
        found = self._chain.resolve().manifest
        assert found is not None
        return found

    monkeypatch.setattr(VolumeSweeper, "_condemn", head)
    breaks("a late commit")


def test_removing_what_the_sweeps_own_snapshot_contains_loses_a_block(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    condemn: Any = VolumeSweeper._condemn

    def without_blocks(self: VolumeSweeper, candidates: set[str]) -> VolumeManifest | None:
        condemn(self, candidates)
        return None

    monkeypatch.setattr(VolumeSweeper, "_condemn", without_blocks)
    breaks("a late commit")


def test_a_snapshot_that_does_not_repeat_the_list_loses_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    lists_of: Any = SweptBlocks.lists_of

    def only_of_sweeps(self: SweptBlocks, parent: VolumeManifest | None) -> tuple[str, ...]:
        found: tuple[str, ...] = lists_of(self, parent)
        return found if parent is not None and (parent.x or {}).get("writer") == "sweep" else ()

    monkeypatch.setattr(SweptBlocks, "lists_of", only_of_sweeps)
    store = MemoryStore()
    first = volume(store, 5)
    first.commit([first.stage_write_at(0, b"x")])
    slow = volume(store, 1).stage_write_at(4, b"slow")
    lode.sweep(first, timedelta(0), dry_run=False)
    second = volume(store, 6)
    second.commit([second.stage_write_at(8, b"x")])
    third = volume(store, 7)
    third.commit([third.stage_write_at(12, b"x")])
    volume(store, 8).commit([slow])
    assert not lode.verify(first).ok
