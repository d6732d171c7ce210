"""The explorer would notice: each way of breaking the protocol is seen to break it."""

from __future__ import annotations

from typing import Any

import pytest

from lode.errors import DataError
from lode.read.resolve import Chain, EncodedManifest, Head
from lode.testing.explore import Scenario, Violation, explore
from lode.testing.protocol import WHOLE, Holds, reader, snapshot_id, two_transactions, writer
from lode.write.commit import Committer, Swap
from lode.write.publish import Publisher
from lode.write.recovery import HeadRecovery

IDS = {"a": snapshot_id(1), "b": snapshot_id(2), "c": snapshot_id(3)}


def _believe(_: Publisher[Any], __: EncodedManifest[Any]) -> None:
    """Take whatever is published for what was declared."""


def breaks(layout: Any, scenario: Scenario) -> None:
    with pytest.raises(Violation):
        explore(scenario, check=Holds(layout, IDS, ("r",)))


def test_publishing_before_the_swap_shows_a_write_that_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    declare: Any = Committer._declare

    def declare_and_publish(self: Committer[Any], draft: Any, base: Head[Any]) -> None:
        declare(self, draft, base)
        self._publisher.publish(draft.declared)

    monkeypatch.setattr(Committer, "_declare", declare_and_publish)
    breaks(WHOLE, Scenario(actors={"a": writer(1), "b": writer(2)}))


def test_not_helping_a_dead_writer_forks_or_stops_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    def settle_without_helping(self: HeadRecovery[Any], *_: Any) -> Head[Any]:
        head = self._chain.resolve()
        return Head(head.pointer, head.manifest)

    monkeypatch.setattr(HeadRecovery, "settle", settle_without_helping)
    breaks(WHOLE, Scenario(actors={"a": writer(1), "b": writer(2, retries=1)}))


def test_a_swap_from_a_snapshot_that_nobody_has_published_hides_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HeadRecovery, "publish_owed", lambda _, head: head)
    breaks(
        WHOLE,
        Scenario(actors={"a": writer(1, append=True), "b": writer(2, append=True), "r": reader()}, crashes=1),
    )


def test_declaring_on_an_unpublished_snapshot_of_the_same_key_commits_it_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def careless(_: Committer[Any], draft: Any, pending: EncodedManifest[Any]) -> bool:
        return draft.landed is False and not pending.before

    scenario = Scenario(actors={"a": writer(1, key="k", append=True), "b": writer(2, key="k", append=True)})
    explore(scenario, check=Holds(WHOLE, IDS))
    monkeypatch.setattr(Committer, "_may_owe", careless)
    breaks(WHOLE, scenario)


def test_publishing_the_key_after_the_manifest_commits_a_key_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    publish: Any = Publisher.publish

    def publish_key_last(self: Publisher[Any], placed: EncodedManifest[Any]) -> None:
        self.create(self._chain.paths.manifest(placed.manifest.snapshot_id), placed.data)
        publish(self, placed)

    monkeypatch.setattr(Publisher, "publish", publish_key_last)
    actors = {"a": writer(1, key="k"), "b": writer(2), "c": writer(3, key="k")}
    breaks(WHOLE, Scenario(actors=actors, crashes=1))


def test_committing_an_id_twice_loses_what_was_built_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    first = dict(explore(Scenario(actors={"w": writer(5, id="run-1")})).endings[0].view.store)
    second = explore(Scenario(actors={"w": writer(6)}, initial=first)).endings[0].view.store
    swept = {path: data for path, data in second.items() if not path.endswith("intent.json")}
    scenario = Scenario(actors={"a": writer(1, id="run-1")}, initial=swept)
    explore(scenario, check=Holds(WHOLE, IDS))

    def trusting(self: Committer[Any], draft: Any) -> None:
        draft.fresh = True
        draft.key_checked_at = self.capture()

    monkeypatch.setattr(Committer, "begin", trusting)
    monkeypatch.setattr(Publisher, "_check_existing", _believe)
    breaks(WHOLE, scenario)


def test_looking_up_a_key_only_at_the_beginning_commits_it_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    place: Any = Committer._place

    def never_again(self: Committer[Any], draft: Any, tally: Any, *, is_stale: bool) -> Any:
        draft.base = draft.key_checked_at = self._capture(None)
        return place(self, draft, tally, is_stale=is_stale)

    monkeypatch.setattr(Committer, "_place", never_again)
    breaks(WHOLE, Scenario(actors={"a": two_transactions(1, key="k")}))


def test_taking_an_unknown_swap_for_a_lost_one_removes_files_of_a_commit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    swap: Any = Committer._swap

    def certain(self: Committer[Any], expected: bytes | None, snapshot_id: str) -> Swap:
        return Swap.WON if swap(self, expected, snapshot_id) is Swap.WON else Swap.LOST

    monkeypatch.setattr(Committer, "_swap", certain)
    breaks(WHOLE, Scenario(actors={"a": writer(1)}, unknown=1, failures=1, recovery=writer(9)))


def test_taking_a_published_manifest_for_ours_acknowledges_a_write_that_is_not_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Publisher, "_check_existing", _believe)
    initial = dict(explore(Scenario(actors={"w": writer(5)})).endings[0].view.store)
    initial[f"datasets/d/snapshots/{snapshot_id(1)}/manifest.json"] = b"not what was declared"
    report = explore(Scenario(actors={"a": writer(1)}, initial=initial))
    assert report.endings[0].view.returned == {"a": snapshot_id(1)}
    monkeypatch.undo()
    report = explore(Scenario(actors={"a": writer(1)}, initial=initial))
    assert isinstance(report.endings[0].view.raised["a"], DataError)


def test_a_reader_that_trusts_the_pointer_sees_a_snapshot_that_is_not_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    resolve: Any = Chain.resolve

    def trusting(self: Chain[Any]) -> Head[Any]:
        head: Head[Any] = resolve(self)
        return head if head.pending is None else Head(head.pointer, head.pending.manifest)

    monkeypatch.setattr(Chain, "resolve", trusting)
    breaks(WHOLE, Scenario(actors={"a": writer(1), "r": reader()}, crashes=1))
