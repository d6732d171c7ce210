"""Group commit: every interleaving of writers that commit each other's drafts, and mutants of its rules."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from lode.store.wrappers import StoreWrapper
from lode.testing.explore import Report, Scenario, explore
from lode.testing.protocol import SPLIT, WHOLE, Holds, published, reader, snapshot_id, sweeper, writer
from lode.write import group, recovery
from lode.write.contention import Contention

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lode.testing.actor import Actor

IDS = {"a": snapshot_id(1), "b": snapshot_id(2), "c": snapshot_id(3)}
HEAD = 7


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """As few slots as the writers need, and one look: a wait of any length is one of the interleavings."""
    monkeypatch.setattr(group, "SPARE_SLOTS", 0)
    monkeypatch.setattr(group, "MAX_SLOTS", 1)
    monkeypatch.setattr(recovery, "GROUP_LOOKS", 0)
    monkeypatch.setattr(Contention, "pauses", lambda *_, **__: [0.0])


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


def explored(layout: Any, scenario: Scenario) -> Report:
    return explore(scenario, check=Holds(layout, IDS, ("r",)))


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
        return call() if self._begun else self._initial[path]


def prepared(number: int, initial: dict[str, bytes], **options: Any) -> Actor:
    """Return an actor whose first call puts its intent. Its file becomes part of ``initial``."""
    staged = explore(Scenario(actors={"w": writer(number, **options)}, initial=initial)).endings[0].view.store
    files = {path: data for path, data in staged.items() if "/data/" in path and path not in initial}
    opened = dict(initial)
    initial.update(files)
    write = writer(number, **options)
    return lambda store: write(Prepared(store, opened))
