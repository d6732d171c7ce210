"""Every interleaving of writers with a store whose history goes away and comes back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lode.errors import HistoryLostError, SnapshotConflictError
from lode.testing.explore import Scenario, Violation, explore
from lode.testing.protocol import dataset, mover, patient, published, snapshot_id, writer
from lode.write.commit import Committer
from lode.write.known import KnownHistory

if TYPE_CHECKING:
    from lode.testing.scenario import View
    from lode.testing.sim import SwapStore

FIRST = snapshot_id(7)
IDS = {"a": snapshot_id(1), "b": snapshot_id(2)}


@pytest.fixture(scope="module")
def initial() -> dict[str, bytes]:
    return dict(explore(Scenario(actors={"w": writer(7)})).endings[0].view.store)


def _settled(store: SwapStore) -> tuple[str, ...]:
    target = dataset(store)
    target.settle()
    return tuple(snapshot.id for snapshot in target.snapshots())


def keeps_what_it_acknowledged(view: View) -> None:
    """When the history is back, it has one line with every snapshot that a writer was told of."""
    if "m" not in view.returned:
        return  # a trouble met the one who moves it
    chain: tuple[str, ...] = view.ask(_settled)
    assert chain[0] == FIRST, f"history begins with {chain[0]}"
    parents = [manifest.parent_snapshot_id for manifest in published(view.store)]
    assert len(set(parents)) == len(parents), "the history has two children of one snapshot"
    for name, id in view.returned.items():
        assert id is None or id in chain, f"{name} was told of {id}, and the history is {chain}"


def scenario(initial: dict[str, bytes], writers: int, *, missed: bool, **troubles: Any) -> Scenario:
    actors = {name: patient(number) for number, name in enumerate(list(IDS)[:writers], 1)}
    mortal = tuple(actors)
    return Scenario(actors={**actors, "m": mover(missed=missed)}, initial=initial, mortal=mortal, **troubles)


@pytest.mark.parametrize("missed", [True, False], ids=["missed", "empty"])
@pytest.mark.parametrize(
    "troubles",
    [{}, {"crashes": 1}, {"unknown": 1}, {"failures": 1}],
    ids=["none", "crash", "unknown", "failure"],
)
def test_what_a_writer_was_told_of_is_there_when_the_history_is_back(
    initial: dict[str, bytes], missed: bool, troubles: dict[str, int]
) -> None:
    report = explore(scenario(initial, 1, missed=missed, **troubles), check_end=keeps_what_it_acknowledged)
    # Some are refused while it is away, and some write before or after that.
    assert report.count(lambda view: "a" in view.raised)
    assert report.count(lambda view: view.returned.get("a") == IDS["a"])


def test_two_writers_on_a_store_that_misses_its_folder_keep_one_line(initial: dict[str, bytes]) -> None:
    report = explore(scenario(initial, 2, missed=True), check_end=keeps_what_it_acknowledged)
    assert report.count(lambda view: IDS.items() <= view.returned.items())
    assert report.count(lambda view: set(view.raised) == {"a", "b"})


def test_two_writers_on_a_store_that_makes_its_folder_again_break_the_history(
    initial: dict[str, bytes],
) -> None:
    """One reads there what the other has put there, and builds on it where it is not."""
    with pytest.raises(Violation, match="is missing, and snapshot"):
        explore(scenario(initial, 2, missed=False), check_end=keeps_what_it_acknowledged)


def test_a_writer_that_forgets_what_it_knew_begins_a_history_that_is_lost(
    initial: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As before: it adopted whatever head it found, and refused only once."""
    commits_since: Any = Committer._commits_since

    def adopt(self: Committer[Any], draft: Any, base: Any, head: Any, known: Any) -> Any:
        try:
            return commits_since(self, draft, base, head, known)
        except HistoryLostError as error:
            self._head = head
            raise SnapshotConflictError(str(error)) from error

    monkeypatch.setattr(Committer, "_commits_since", adopt)
    monkeypatch.setattr(KnownHistory, "newest", None)
    monkeypatch.setattr(KnownHistory, "check", lambda *_: None)
    with pytest.raises(Violation, match="was told of"):
        explore(scenario(initial, 1, missed=False), check_end=keeps_what_it_acknowledged)
