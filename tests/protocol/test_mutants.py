"""The explorer would notice: each way of breaking the protocol is seen to break it."""

from __future__ import annotations

from typing import Any

import pytest

from lode.read.resolve import Chain, Head, Pending
from lode.testing.explore import Scenario, Violation, explore
from lode.testing.protocol import WHOLE, Holds, reader, snapshot_id, writer
from lode.write.commit import Committer

IDS = {"a": snapshot_id(1), "b": snapshot_id(2), "c": snapshot_id(3)}


def breaks(layout: Any, scenario: Scenario) -> None:
    with pytest.raises(Violation):
        explore(scenario, check=Holds(layout, IDS, ("r",)))


def test_publishing_before_the_swap_shows_a_write_that_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    declare: Any = Committer._declare

    def declare_and_publish(self: Committer[Any], draft: Any, base: Head[Any]) -> None:
        declare(self, draft, base)
        self._publish(draft.declared)

    monkeypatch.setattr(Committer, "_declare", declare_and_publish)
    breaks(WHOLE, Scenario(actors={"a": writer(1), "b": writer(2)}))


def test_not_helping_a_dead_writer_forks_or_stops_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    def settle_without_helping(self: Committer[Any]) -> Head[Any]:
        head = self._chain.resolve()
        return Head(head.pointer, head.manifest)

    monkeypatch.setattr(Committer, "settle", settle_without_helping)
    breaks(WHOLE, Scenario(actors={"a": writer(1), "b": writer(2, retries=1)}))


def test_publishing_the_key_after_the_manifest_commits_a_key_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    publish: Any = Committer._publish

    def publish_key_last(self: Committer[Any], placed: Pending[Any]) -> None:
        self._create(self._chain.paths.manifest(placed.manifest.snapshot_id), placed.data)
        publish(self, placed)

    monkeypatch.setattr(Committer, "_publish", publish_key_last)
    actors = {"a": writer(1, key="k"), "b": writer(2), "c": writer(3, key="k")}
    breaks(WHOLE, Scenario(actors=actors, crashes=1))


def test_a_reader_that_trusts_the_pointer_sees_a_snapshot_that_is_not_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    resolve: Any = Chain.resolve

    def trusting(self: Chain[Any]) -> Head[Any]:
        head: Head[Any] = resolve(self)
        return head if head.pending is None else Head(head.pointer, head.pending.manifest)

    monkeypatch.setattr(Chain, "resolve", trusting)
    breaks(WHOLE, Scenario(actors={"a": writer(1), "r": reader()}, crashes=1))
