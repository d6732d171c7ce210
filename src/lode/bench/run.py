"""Run all measurements within a time limit."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lode.bench.blobs import measure_blobs
from lode.bench.commits import measure_commits
from lode.bench.contention import measure_contention
from lode.bench.opening import measure_opening
from lode.bench.results import Results
from lode.bench.scratch import scratch_below
from lode.errors import InvalidOptionError
from lode.store.open import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from lode.bench.rounds import Advance

    Progress = Callable[[str, str], AbstractContextManager[Advance]]


@contextmanager
def unwatched(_what: str, _unit: str) -> Iterator[Advance]:
    """Report no progress."""
    yield lambda _done, _total: None


def measure(
    root: str,
    *,
    options: Mapping[str, Any] | None = None,
    seconds: float = 20.0,
    writers: int = 4,
    progress: Progress = unwatched,
) -> Results:
    """Compare Lode on a store with the store itself.

    Args:
        root: The store, below which a new folder is made and removed.
        options: Options of the store.
        seconds: Approximate duration, without starting the writers and removing the data.
        writers: Number of concurrent writers.
        progress: Called with the name of each measurement.
    """
    if seconds <= 0:
        raise InvalidOptionError(f"seconds is {seconds:g}: it must be more than 0")
    if writers < 1:
        raise InvalidOptionError(f"writers is {writers}: it takes at least one")
    url = open_store(root, **(options or {})).url
    with scratch_below(root, options or {}) as scratch:
        with progress("one writer commits", "rounds") as advance:
            commits = measure_commits(scratch, seconds=seconds * 0.25, advance=advance)
        with progress(f"{writers} writers commit at once", "writers done") as advance:
            contention = measure_contention(scratch, writers, seconds=seconds * 0.4, advance=advance)
        with progress("a reader opens it", "rounds") as advance:
            opening = measure_opening(scratch, seconds=seconds * 0.1, advance=advance)
        with progress("a long stream goes in", "rounds") as advance:
            blobs = measure_blobs(scratch, seconds=seconds * 0.25, advance=advance)
    return Results(url, commits, contention, opening, blobs)
