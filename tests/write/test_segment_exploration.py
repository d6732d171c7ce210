"""Every interleaving of a writer that is far behind with one that commits and writes the history segment."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from lode.dataset import Dataset
from lode.errors import SnapshotConflictError
from lode.read.history import fetch_segment
from lode.read.segment import decode_segment
from lode.store.memory import MemoryStore
from lode.testing.explore import Report, Scenario, explore
from lode.testing.protocol import DATASET, SPLIT, Holds, dataset, published, snapshot_id, still, writer
from lode.write.rebase import _WalkBack
from support.stores import contents

if TYPE_CHECKING:
    from lode.testing.actor import Actor
    from lode.testing.scenario import View
    from lode.testing.sim import SwapStore

IDS = {"a": snapshot_id(1), "b": snapshot_id(2)}
SEGMENT = f"datasets/{DATASET}/history/16/000000000016.json.zst"


@cache
def history(first: int = 100, length: int = 15) -> dict[str, bytes]:
    """So many snapshots, each of its own partition. The next of them completes a segment."""
    store = MemoryStore()
    for number in range(first, first + length):
        runtime = replace(still(number), background=lambda chore: chore())
        target = Dataset(DATASET, store, codec="jsonl", layout=SPLIT, runtime=runtime)
        target.write([{"p": f"{number}", "by": number}])
    return contents(store)


def completing(number: int, partition: str) -> Actor:
    """Return an actor that commits and then writes the segment that ends with its commit."""

    def write(store: SwapStore) -> str:
        runtime = replace(still(number), background=lambda chore: chore())
        target = Dataset(DATASET, store, codec="jsonl", layout=SPLIT, runtime=runtime)
        return target.write([{"p": partition, "by": number}]).id

    return write


def behind(number: int, partition: str) -> Actor:
    """Return an actor that commits as if it had last looked when there were three snapshots."""

    def write(store: SwapStore) -> str:
        target = dataset(store, number, layout=SPLIT)
        return target.write([{"p": partition, "by": number}], base=snapshot_id(102)).id

    return write


def explored(ours: str, theirs: str, initial: dict[str, bytes] | None = None, **options: Any) -> Report:
    actors = {"a": completing(1, theirs), "b": behind(2, ours)}
    scenario = Scenario(actors=actors, initial=initial or history(), **options)
    return explore(scenario, check=Holds(SPLIT, IDS))


def test_a_writer_far_behind_follows_others_while_they_write_a_segment(record_property: Any) -> None:
    report = explored("y", "x")
    record_property("interleavings", report.interleavings)
    assert report.count(lambda view: {"a", "b"} <= view.returned.keys()) == report.interleavings
    assert report.count(lambda view: SEGMENT in view.store) > 0


def test_it_follows_them_whatever_a_crash_leaves_of_the_segment(record_property: Any) -> None:
    recovery = writer(9, partition="z")
    report = explored("y", "x", crashes=1, mortal=("a",), recovery=recovery)
    record_property("interleavings", report.interleavings)
    assert report.count(lambda view: "b" in view.returned) == report.interleavings


@pytest.mark.parametrize("partition", ["103", "108", "114"])
def test_a_conflict_in_the_segment_is_never_missed(partition: str) -> None:
    report = explored(partition, "x")
    assert report.count(lambda view: isinstance(view.raised.get("b"), SnapshotConflictError)) == (
        report.interleavings
    )


def overtaken(view: View) -> bool:
    """Whether the writer that is behind has followed the other one, which wrote the same partition."""
    places = {manifest.snapshot_id: manifest.sequence or 0 for manifest in published(view.store)}
    return places.get(IDS["b"], 0) > places.get(IDS["a"], 99)


def test_a_conflict_with_the_snapshot_that_ends_the_segment_is_never_missed() -> None:
    report = explored("x", "x")
    assert report.count(overtaken) == 0
    assert report.count(lambda view: "b" in view.raised) > 0


def test_a_segment_of_another_history_stops_nobody() -> None:
    foreign = {SEGMENT: history(200, 16)[SEGMENT]}
    report = explored("y", "x", history() | foreign)
    assert report.count(lambda view: {"a", "b"} <= view.returned.keys()) == report.interleavings


# -- mutants -----------------------------------------------------------------------------------------------


def test_leaving_out_the_commits_after_a_segment_misses_a_conflict(monkeypatch: pytest.MonkeyPatch) -> None:
    before: Any = _WalkBack._segment_before

    def forgetful(self: Any, manifest: Any, commits: Any) -> Any:
        return 0, before(self, manifest, commits)[1]

    monkeypatch.setattr(_WalkBack, "_segment_before", forgetful)
    assert explored("x", "x").count(overtaken) > 0


def test_believing_any_segment_refuses_a_writer_that_conflicts_with_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def credulous(self: Any, level: int, last: int, *_: Any) -> Any:
        data = fetch_segment(self._chain, level, last)
        if data is None:
            return []
        return [self._chain.checked(bytes(raw), "") for raw in reversed(decode_segment(data))]

    monkeypatch.setattr(_WalkBack, "_fitting", credulous)
    foreign = {SEGMENT: history(200, 16)[SEGMENT]}
    report = explored("y", "x", history() | foreign)
    assert report.count(lambda view: "b" in view.raised) > 0
