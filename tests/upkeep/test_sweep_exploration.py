"""Sweeps beside paused writers while the pointer dangles, is lost or was restored: nothing named is removed.

The other explorations begin with an empty or a whole lake. These begin with a damaged one.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import lode
from lode.format.manifest import decode_manifest, expected_pointer
from lode.format.paths import MANIFEST
from lode.testing.explore import Scenario, Violation, explore
from lode.testing.protocol import (
    DATASET,
    LONG_AFTER,
    SPLIT,
    WHOLE,
    Holds,
    dataset,
    snapshot_id,
    still,
    sweeper,
    writer,
)
from lode.testing.walk import walks
from lode.upkeep import leftovers
from lode.upkeep.leftovers import Errand
from lode.upkeep.published import PublishedManifests
from lode.upkeep.sweep_dataset import DatasetSweeper
from lode.write.draft import Draft

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lode.testing.actor import Actor
    from lode.testing.explore import View
    from lode.testing.sim import SwapStore

IDS = {"a": snapshot_id(1), "b": snapshot_id(2)}
POINTER = f"datasets/{DATASET}/latest"


def lake(*actors: Actor) -> dict[str, bytes]:
    """What a store holds after these have run, one after the other."""
    contents: Mapping[str, bytes] = {}
    for actor in actors:
        report = explore(Scenario(actors={"w": actor}, initial=contents))
        contents = report.endings[0].view.store
    return dict(contents)


THREE = lake(writer(5), writer(6), writer(7))
DAMAGED = {
    "lost": {path: data for path, data in THREE.items() if path != POINTER},
    "dangling": {**THREE, POINTER: b"1234567890123456789"},
}
RESTORED = {**THREE, POINTER: snapshot_id(5).encode()}


def whole(view: View) -> None:
    """Everything that any manifest names is there, and everything acknowledged has its manifest."""
    published = set()
    for path, data in view.store.items():
        if path.endswith(f"/{MANIFEST}"):
            manifest = decode_manifest(data, path)
            published.add(manifest.snapshot_id)
            for file in manifest.files:
                assert file.path in view.store, f"{file.path} of {manifest.snapshot_id} is missing"
    for name, value in view.returned.items():
        assert value is None or value in published, f"{name} was told that {value} is committed"


@pytest.mark.parametrize("pointer", DAMAGED)
def test_a_sweep_beside_a_writer_whose_pointer_is_damaged(pointer: str, record_property: Any) -> None:
    actors = {"a": writer(1), "s": sweeper()}
    scenario = Scenario(actors=actors, initial=DAMAGED[pointer], crashes=1, recovery=writer(9))
    report = explore(scenario, check=Holds(WHOLE, IDS))
    record_property("interleavings", report.interleavings)


@pytest.mark.parametrize("pointer", DAMAGED)
def test_a_sweep_beside_two_writers_whose_pointer_is_damaged(pointer: str, record_property: Any) -> None:
    """By seed: all interleavings of two writers and a sweep, each with a grace period, are too many."""
    actors = {"a": writer(1), "b": writer(2, retries=1), "s": sweeper()}
    scenario = Scenario(actors=actors, initial=DAMAGED[pointer], crashes=1)
    report = walks(scenario, range(150), check=Holds(WHOLE, IDS))
    record_property("interleavings", report.distinct)


def test_a_sweep_beside_writers_after_the_pointer_was_restored_to_an_older_value(
    record_property: Any,
) -> None:
    actors = {"a": writer(1), "b": writer(2, retries=1), "s": sweeper()}
    report = explore(Scenario(actors=actors, initial=RESTORED, crashes=1), check=whole)
    record_property("interleavings", report.interleavings)


@pytest.mark.parametrize("start", ["empty", "lost", "whole"])
def test_two_sweeps_at_once_beside_a_writer(start: str, record_property: Any) -> None:
    initial = {"empty": {}, "lost": DAMAGED["lost"], "whole": THREE}[start]
    actors = {"a": writer(1), "s": sweeper(), "t": sweeper()}
    report = explore(Scenario(actors=actors, initial=initial, crashes=1), check=Holds(WHOLE, IDS))
    record_property("interleavings", report.interleavings)


def guessing_sweeper(store: SwapStore) -> None:
    """A sweep that is told no layout."""
    lode.sweep(lode.Dataset(DATASET, store), timedelta(0), dry_run=False, runtime=still(LONG_AFTER))


@pytest.mark.parametrize("sweeping", [guessing_sweeper, sweeper(WHOLE)], ids=["none", "wrong"])
def test_a_sweep_without_or_with_the_wrong_layout(sweeping: Actor, record_property: Any) -> None:
    actors = {"a": writer(1, partition="x"), "b": writer(2, partition="y"), "s": sweeping}
    for initial in ({}, lake(writer(5, partition="x"))):
        report = explore(Scenario(actors=actors, initial=initial), check=Holds(SPLIT, IDS))
        record_property("interleavings", report.interleavings)


def abandoned(number: int) -> Actor:
    """An actor that stages a file and dies."""

    def stage(store: SwapStore) -> None:
        dataset(store, number).transaction().stage(b"never committed")

    return stage


def test_what_was_abandoned_is_removed_in_the_end() -> None:
    """The promises above are not kept by doing nothing."""
    for initial in (THREE, RESTORED, *DAMAGED.values()):
        before = lake_with(initial, abandoned(8))
        scenario = Scenario(actors={"a": writer(1), "s": sweeper()}, initial=before)
        for ending in explore(scenario, check=whole).endings:
            left = [path for path in ending.view.store if snapshot_id(8) in path]
            assert [path.rpartition("/")[2] for path in left] == ["intent.json"]


def lake_with(initial: Mapping[str, bytes], actor: Actor) -> Mapping[str, bytes]:
    return explore(Scenario(actors={"w": actor}, initial=initial)).endings[0].view.store


# -- mutants: the explorer would notice ---------------------------------------------------------


def breaks(scenario: Scenario, check: Any) -> None:
    with pytest.raises(Violation, match="is missing"):
        explore(scenario, check=check)


@pytest.mark.parametrize("pointer", ["lost", "dangling"])
def test_judging_an_intent_by_its_parent_removes_what_is_committed(
    pointer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leftovers, "expected_pointer", lambda parent, _: expected_pointer(parent, None))
    breaks(Scenario(actors={"a": writer(1), "s": sweeper()}, initial=DAMAGED[pointer]), Holds(WHOLE, IDS))


@pytest.mark.parametrize("pointer", ["lost", "dangling"])
def test_trusting_an_old_writer_that_records_nothing_removes_what_is_committed(
    pointer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin: Any = Draft.origin

    def origin_of_0_1(self: Draft[Any]) -> dict[str, Any]:
        return {name: value for name, value in origin(self).items() if name != "expected"}

    monkeypatch.setattr(Draft, "origin", origin_of_0_1)
    scenario = Scenario(actors={"a": writer(1), "s": sweeper()}, initial=DAMAGED[pointer])
    explore(scenario, check=Holds(WHOLE, IDS))
    read: Any = DatasetSweeper._pointer
    trusting = lambda self, paths: leftovers.Pointer(read(self, paths).value, firm=True)  # noqa: E731
    monkeypatch.setattr(DatasetSweeper, "_pointer", trusting)
    breaks(scenario, Holds(WHOLE, IDS))


def test_not_looking_for_a_manifest_before_removing_removes_what_is_committed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A writer that commits between the listing and the reading of its intent, and is built upon."""
    monkeypatch.setattr(Errand, "run", removed_without_a_look)
    actors = {"a": writer(1), "b": writer(2, retries=1), "s": sweeper()}
    breaks(Scenario(actors=actors), Holds(WHOLE, IDS))


def removed_without_a_look(self: Errand, store: Any) -> bool:
    for path in self.paths:
        store.delete(path)
    return True


def test_believing_only_the_pointer_removes_what_is_published(monkeypatch: pytest.MonkeyPatch) -> None:
    """What sweep did before: only what the pointer reaches counted as committed."""
    read_all: Any = PublishedManifests.read_all

    def read_reachable(self: PublishedManifests) -> None:
        read_all(self)
        reachable = {snapshot_id(5)}
        self.manifests = {id: at for id, at in self.manifests.items() if id in reachable}
        self.mentioned.clear()
        self.files = {path for path in self.files if snapshot_id(5) in path}

    monkeypatch.setattr(PublishedManifests, "read_all", read_reachable)
    monkeypatch.setattr(Errand, "run", removed_without_a_look)
    breaks(Scenario(actors={"s": sweeper()}, initial=RESTORED), whole)


def test_matching_data_files_anywhere_below_the_root_removes_those_of_another_layout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What sweep did before: any ``…/<x>/data/<y>``, judged by the manifests of one layout."""

    def anywhere(_self: Any, _dataset_id: str, path: str) -> str | None:
        match path.split("/"):
            case [*_, id, "data", _]:
                return id
        return None

    def manifests_of_one_layout(self: PublishedManifests) -> None:
        self.manifests.clear()
        self.copies.clear()

    monkeypatch.setattr(type(WHOLE), "staged", anywhere)
    monkeypatch.setattr(PublishedManifests, "read_all", manifests_of_one_layout)
    both = {**lake(writer(5, partition="x")), **lake(writer(6))}
    scenario = Scenario(actors={"s": sweeper(WHOLE)}, initial=both)
    breaks(scenario, whole)
