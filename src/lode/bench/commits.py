"""Latency of a commit by one writer, compared with the same bytes without Lode."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from lode.bench.floor import Floor
from lode.bench.results import Commits
from lode.bench.rounds import calls_of, take_turns
from lode.dataset import Dataset

if TYPE_CHECKING:
    from collections.abc import Callable

    from lode.bench.rounds import Advance
    from lode.bench.scratch import Scratch
    from lode.store.protocol import Store

_NAME: Final = "commits"
_BYTES: Final = 16 << 10
_MOST: Final = 1_000
# Some commits also write a history segment.
_COUNTED: Final = 16


def measure_commits(scratch: Scratch, *, seconds: float, advance: Advance) -> Commits:
    """Commit the same bytes alternately with Lode and without."""
    content = os.urandom(_BYTES)
    store = scratch.open()
    dataset, floor = Dataset(_NAME, store), Floor(store, _NAME)
    # The first of each creates the objects that later ones find.
    dataset.write(content)
    floor.commit(content)
    lode, least = take_turns(
        lambda: dataset.write(content),
        lambda: floor.commit(content),
        seconds=seconds,
        most=_MOST,
        advance=advance,
    )
    calls = calls_of(store, lambda counting: _writing(counting, content), times=_COUNTED)
    return Commits(_BYTES, lode, least, calls)


def _writing(store: Store, content: bytes) -> Callable[[], object]:
    dataset = Dataset(_NAME, store)
    return lambda: dataset.write(content)
