"""Every interleaving of callers who disagree about what a dataset is, and of writers beside an evolution."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import lode
from lode.testing.explore import Scenario, Violation, explore
from lode.testing.protocol import DATASET, published, snapshot_id, still, writer

if TYPE_CHECKING:
    from collections.abc import Callable

    from lode.testing.actor import Actor
    from lode.testing.scenario import View
    from lode.testing.sim import SwapStore

IDS = {"a": snapshot_id(1), "b": snapshot_id(2), "c": snapshot_id(3)}
BLOBS = {"a": writer(1)}
PARTITIONS = {"b": writer(2, partition="x")}


@pytest.fixture
def record(record_property: Any) -> Any:
    return record_property


def of_one_kind(view: View) -> None:
    """All snapshots form one line of one definition, and every promise to a writer is kept."""
    manifests = published(view.store)
    parents = [manifest.parent_snapshot_id for manifest in manifests]
    assert len(set(parents)) == len(parents), f"{sorted(map(str, parents))} have more than one child"
    assert len({manifest.definition for manifest in manifests}) <= 1, "two definitions in one history"
    assert len({manifest.codec for manifest in manifests}) <= 1, "two codecs in one history"
    ids = {manifest.snapshot_id for manifest in manifests}
    for name, value in view.returned.items():
        assert name not in IDS or value in ids, f"{name} was acknowledged and {value} is not there"
    for name, error in view.raised.items():
        if isinstance(error, lode.ComponentMismatchError | lode.SnapshotConflictError):
            assert IDS.get(name) not in ids, f"{name} was refused and is there"


def opener(store: SwapStore) -> int:
    """Open whatever is there, without options, and count its snapshots."""
    return len(lode.Dataset(DATASET, store, runtime=still(9)).snapshots())


@pytest.mark.parametrize(("crashes", "unknown"), [(1, 0), (0, 1)], ids=["a crash", "a lost answer"])
def test_two_creators_with_different_layouts_never_make_two_roots(
    crashes: int, unknown: int, record: Any
) -> None:
    scenario = Scenario(
        actors={**BLOBS, **PARTITIONS},
        crashes=crashes,
        unknown=unknown,
        delayed=bool(unknown),
        recovery=opener,
    )
    report = explore(scenario, check=of_one_kind)
    record("interleavings", report.interleavings)
    # Each of the two is the one that succeeds in some interleaving, and in none do both.
    for name in ("a", "b"):
        assert report.count(lambda view, name=name: set(view.returned) == {name}) > 0  # type: ignore[misc]
    assert report.count(lambda view: {"a", "b"} <= view.returned.keys()) == 0


def test_a_writer_of_another_layout_beside_one_that_is_right(record: Any) -> None:
    first = explore(Scenario(actors={"w": writer(3, partition="y")})).endings[0].view.store
    scenario = Scenario(
        actors={**BLOBS, **PARTITIONS}, initial=dict(first), crashes=1, recovery=writer(9, partition="z")
    )
    report = explore(scenario, check=of_one_kind)
    record("interleavings", report.interleavings)
    assert report.count(lambda view: "a" in view.returned) == 0, "the wrong layout is always refused"


def test_without_the_look_under_other_layouts_there_are_two_roots(monkeypatch: pytest.MonkeyPatch) -> None:
    from lode.read.resolve import Chain

    monkeypatch.setattr(Chain, "_refuse_other_layout", lambda *_: None)
    monkeypatch.setattr(Chain, "_head_without_pointer", Chain.head_by_links)
    with pytest.raises(Violation):
        explore(Scenario(actors={**BLOBS, **PARTITIONS}), check=of_one_kind)


# -- writers beside an evolution -------------------------------------------------------------------


def rows(number: int, change: Callable[[lode.Dataset], lode.Snapshot]) -> Actor:
    """Return an actor that opens the dataset as it is and does one thing to it."""

    def run(store: SwapStore) -> str:
        return change(lode.Dataset(DATASET, store, runtime=still(number))).id

    return run


def created(store: SwapStore) -> None:
    codec = lode.JSONL({"k": "string", "v": "string"})
    dataset = lode.Dataset(DATASET, store, codec=codec, runtime=still(5))
    dataset.write([{"k": "first", "v": "one"}])


def read(store: SwapStore) -> list[dict[str, Any]]:
    return lode.Dataset(DATASET, store, runtime=still(8)).scan().read_all().to_pylist()


def test_a_value_is_never_lost_beside_a_rename(record: Any) -> None:
    """Whatever the order: the write is refused, or its value is there under the present name."""

    def whole(view: View) -> None:
        found = view.ask(read)
        name = "label" if any("label" in row for row in found) else "v"
        expected = {"one"} | ({"two"} if "a" in view.returned else set())
        assert {row[name] for row in found} >= expected, f"{found} lacks a value"
        assert None not in {row[name] for row in found}, f"{found} has lost a value"

    initial = explore(Scenario(actors={"w": lambda store: created(store)})).endings[0].view.store
    actors = {
        "a": rows(1, lambda dataset: dataset.write([{"k": "second", "v": "two"}])),
        "b": rows(2, lambda dataset: dataset.evolve(rename={"v": "label"})),
    }
    scenario = Scenario(actors=actors, initial=dict(initial), crashes=1, recovery=opener)
    report = explore(scenario, check=whole)
    record("interleavings", report.interleavings)
    refused = report.count(lambda view: isinstance(view.raised.get("a"), lode.SchemaViolationError))
    assert refused > 0, "in some interleaving the rename comes first"


def test_two_evolutions_that_go_together_both_land(record: Any) -> None:
    initial = explore(Scenario(actors={"w": lambda store: created(store)})).endings[0].view.store
    actors = {
        "a": rows(1, lambda dataset: dataset.evolve(add={"x": "int64"})),
        "b": rows(2, lambda dataset: dataset.evolve(add={"y": "int64"})),
    }
    report = explore(Scenario(actors=actors, initial=dict(initial)))
    record("interleavings", report.interleavings)
    for ending in report.endings:
        assert set(ending.view.returned) == {"a", "b"}
        assert set(ending.view.ask(read)[0]) == {"k", "v", "x", "y"}
