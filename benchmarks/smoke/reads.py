"""What it takes to open, plan and scan."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import lode
from benchmarks.smoke.place import Place

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.smoke.bounds import Counts

_FILES: Final = 100


def _open(commits: int) -> Counts:
    place = Place()
    place.filled(commits, rows=1)
    return place.reading(lambda: lode.open_dataset("d", place.store))


def _plan(commits: int) -> Counts:
    place = Place()
    place.filled(commits, rows=1)
    return place.reading(lambda: place.dataset().plan())


def _scan(where: str | None = None) -> Counts:
    place = Place()
    place.filled(_FILES)
    return place.reading(lambda: place.dataset().scan(where=where).read_all())


def _since() -> Counts:
    place = Place()
    dataset = place.filled(_FILES)
    snapshot = dataset.snapshot("latest~10").id
    return place.reading(lambda: place.dataset().scan(since=snapshot).read_all())


def _verify() -> Counts:
    place = Place()
    place.filled(_FILES)
    return place.reading(lambda: lode.verify(place.dataset(), checksums=False))


READS: Final[dict[str, Callable[[], Counts]]] = {
    "open after 10 commits": partial(_open, 10),
    "open after 500 commits": partial(_open, 500),
    "plan after 10 commits": partial(_plan, 10),
    "plan after 500 commits": partial(_plan, 500),
    f"scan of {_FILES} small files": _scan,
    f"scan that matches one of {_FILES} files": partial(_scan, "n = 7"),
    "scan of the last 10 commits": _since,
    f"verify of {_FILES} files without checksums": _verify,
}
