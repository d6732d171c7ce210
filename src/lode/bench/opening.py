"""Time of a new reader until it knows every file, compared with two plain reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lode.bench.floor import Floor
from lode.bench.results import Opening
from lode.bench.rounds import calls_of, take_turns
from lode.bench.writer import NAME
from lode.discover import open_dataset

if TYPE_CHECKING:
    from lode.bench.rounds import Advance
    from lode.bench.scratch import Scratch
    from lode.read.scan import Scan
    from lode.store.protocol import Store

_MOST: Final = 200


def measure_opening(scratch: Scratch, *, seconds: float, advance: Advance) -> Opening:
    """Open the dataset of the writers and plan a full scan; the floor reads a pointer and an object."""
    lode, floor = take_turns(
        lambda: _plan(scratch.open()),
        lambda: Floor(scratch.open(), NAME).read(),
        seconds=seconds,
        most=_MOST,
        advance=advance,
    )
    dataset = open_dataset(NAME, scratch.open())
    files, snapshots = len(_plan(scratch.open()).files), len(dataset.snapshots())
    return Opening(
        snapshots, files, lode, floor, calls_of(scratch.open(), lambda store: lambda: _plan(store))
    )


def _plan(store: Store) -> Scan:
    plan = open_dataset(NAME, store).plan()
    _ = plan.files
    return plan
