"""Every interleaving of our writers and readers with a model of Go's, on a dataset that is shared with Go."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

import lode
from lode.format.pointer import named_in
from lode.testing.explore import Scenario, Violation, explore
from lode.testing.protocol import (
    DATASET,
    WHOLE,
    Holds,
    history,
    published,
    reader,
    snapshot_id,
    still,
    sweeper,
    writer,
)
from lode.write import commit
from lode.write.recovery import HeadRecovery
from support import golang

if TYPE_CHECKING:
    from lode.read.resolve import Head
    from lode.testing.actor import Actor
    from lode.testing.scenario import View
    from lode.testing.sim import SwapStore

IDS = {"a": snapshot_id(1), "b": snapshot_id(2)}
OF_GO = "0000000000000000005"
GO_LATEST: Actor = partial(golang.latest, dataset=DATASET)


def shared() -> dict[str, bytes]:
    """What the store holds after a dataset was created that is shared with Go."""

    def create(store: SwapStore) -> None:
        lode.Dataset.create(DATASET, store, shared_with_go=True, runtime=still(0))

    return dict(explore(Scenario(actors={"w": create})).endings[0].view.store)


def beside_readers(**more: Any) -> Scenario:
    actors = {"a": writer(1), "b": writer(2, append=True), "go": GO_LATEST, **more.pop("actors", {})}
    return Scenario(actors=actors, initial=shared(), recovery=writer(9), **more)


def test_two_writers_beside_a_reader_of_go_under_a_crash(record_property: Any) -> None:
    report = explore(beside_readers(crashes=1), check=Holds(WHOLE, IDS, ("go",)))
    record_property("interleavings", report.interleavings)


@pytest.mark.parametrize("delayed", [False, True], ids=["lost", "late"])
def test_two_writers_beside_a_reader_of_go_whose_answers_are_lost(
    delayed: bool, record_property: Any
) -> None:
    report = explore(beside_readers(unknown=1, delayed=delayed), check=Holds(WHOLE, IDS, ("go",)))
    record_property("interleavings", report.interleavings)


def test_two_writers_under_one_key_beside_a_reader_of_go(record_property: Any) -> None:
    actors = {"a": writer(1, key="k"), "b": writer(2, key="k"), "r": reader()}
    report = explore(beside_readers(actors=actors), check=Holds(WHOLE, IDS, ("r",)))
    record_property("interleavings", report.interleavings)


def test_a_sweep_beside_a_writer_and_a_reader_of_go(record_property: Any) -> None:
    actors = {"a": writer(1), "go": GO_LATEST, "s": sweeper()}
    scenario = Scenario(actors=actors, initial=shared(), crashes=1, recovery=writer(9))
    report = explore(scenario, check=Holds(WHOLE, IDS, ("go",)))
    record_property("interleavings", report.interleavings)


def test_the_pointer_is_open_in_the_end(record_property: Any) -> None:
    report = explore(beside_readers())
    record_property("interleavings", report.interleavings)
    for ending in report.endings:
        content = ending.view.store[f"datasets/{DATASET}/latest"]
        assert content == named_in(content)


def keeps_all(view: View) -> None:
    """What is acknowledged, by either, is in history; what is not in history cannot be listed."""
    chain: tuple[str, ...] = view.ask(HISTORY)
    listed = {manifest.snapshot_id for manifest in published(view.store)}
    assert listed == set(chain), f"listed are {listed}, the history is {chain}"
    for name, value in view.returned.items():
        assert name == "r" or value in chain, f"{name} got the answer {value}, the history is {chain}"


HISTORY = history()


def beside_a_writer(**more: Any) -> Scenario:
    actors = {"a": writer(1), "go": golang.writer(OF_GO, DATASET, codec=""), "r": reader()}
    return Scenario(actors=actors, initial=shared(), recovery=writer(9), **more)


def test_a_writer_beside_a_writer_of_go_under_a_crash(record_property: Any) -> None:
    report = explore(beside_a_writer(crashes=1), check=keeps_all)
    record_property("interleavings", report.interleavings)


# The explorer would notice.


def never_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit, "closed_pointer", lambda snapshot_id: snapshot_id.encode())


def test_a_pointer_that_is_never_closed_loses_a_write(monkeypatch: pytest.MonkeyPatch) -> None:
    never_closed(monkeypatch)
    with pytest.raises(Violation):
        explore(beside_readers(), check=Holds(WHOLE, IDS, ("go",)))


def test_a_pointer_that_is_read_again_after_publishing_loses_a_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """The remedy that was planned first: Go's repair may come after the second look."""
    never_closed(monkeypatch)

    def look_again(self: HeadRecovery[Any], newest: Any) -> None:
        chain, pointer = self._chain, newest.snapshot_id.encode()
        found = chain.pointer()
        parent = (newest.parent_snapshot_id or "").encode()
        if found == parent and self._publisher.swapping is not None:
            self._publisher.swapping.compare_and_swap(chain.paths.pointer, parent, pointer)

    monkeypatch.setattr(HeadRecovery, "open_pointer", look_again)
    with pytest.raises(Violation, match="committed, and it is not in"):
        explore(beside_readers(), check=_only_promises)


def _only_promises(view: View) -> None:
    chain: tuple[str, ...] = view.ask(HISTORY)
    for name, value in view.returned.items():
        assert name == "go" or value in chain, f"{value} is committed, and it is not in {chain}"


def test_overtaking_a_late_writer_of_go_loses_its_write(monkeypatch: pytest.MonkeyPatch) -> None:
    def leave(_: HeadRecovery[Any], head: Head[Any]) -> Head[Any]:
        return head

    monkeypatch.setattr(HeadRecovery, "_finish_for_go", leave)
    with pytest.raises(Violation):
        explore(beside_a_writer(), check=keeps_all)
