"""How many others committed since a writer looked: what it costs to follow them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lode
from benchmarks.scaling.axis import counted, timed
from benchmarks.scaling.places import AT_ONCE, NO_CHORES, Places

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.rounds import Sample
    from lode.runtime import Runtime


class RivalsAxis:
    """A commit that finds so many others in front of it, all in another partition."""

    name = "rivals"
    title = "Commits of others that came first"
    x = "commits of others"
    rows = ("rebased commit, calls", "rebased commit reads, bytes", "rebased commit, ms")
    drawn = ("calls", "ms")
    notes = (
        "One rebase: every manifest that came first is looked at, to see whether it touches the same data. "
        "The newest are read one by one, the others from history segments.",
    )

    def __init__(self, root: Path) -> None:
        self._places = Places(root)

    def measure(self, size: int) -> Sample:
        memory = self._places.memory
        calls, _, read = counted(memory, _Late(memory, size))
        return [calls, read, timed(_Late(self._places.disk, size), times=1)]


class _Late:
    """A writer whose view of the head is so many commits old; called, it commits."""

    def __init__(self, store: lode.Store, rivals: int) -> None:
        early, self._dataset = _dataset(store, AT_ONCE), _dataset(store, NO_CHORES)
        early.write([{"who": "early"}])
        self._dataset.transaction().abort()  # its first look
        for _ in range(rivals):
            early.write([{"who": "early"}])

    def __call__(self) -> None:
        self._dataset.write([{"who": "late"}])


def _dataset(store: lode.Store, runtime: Runtime) -> lode.Dataset:
    return lode.Dataset("rivals", store, codec=lode.JSONL(), layout=lode.HiveLayout("who"), runtime=runtime)
