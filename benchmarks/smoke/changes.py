"""What it takes to change and maintain a dataset of small files or of partitions."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

import lode
from benchmarks.smoke.place import Place

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.smoke.bounds import Counts

_FILES: Final = 50


def _of_partitions() -> Place:
    """Three commits to 20 partitions each."""
    place = Place()
    dataset = place.create(partitioned=True)
    for number in range(3):
        dataset.write([{"day": f"d{day:02d}", "n": number} for day in range(20)])
    return place


def _of_files() -> Place:
    place = Place()
    place.filled(_FILES)
    return place


def _change(make: Callable[[], Place], work: Callable[[lode.Dataset], object]) -> Counts:
    """The cost for an object that was just opened, and the files that are there afterwards."""
    place = make()
    found = place.changing(lambda: work(place.dataset()))
    return {**found, "files": len(place.dataset().plan().paths)}


def _restore() -> Counts:
    place = _of_files()
    place.dataset().delete("n = 7")
    return place.changing(lambda: place.dataset().restore("latest~1"))


def _expire() -> Counts:
    place = _of_files()
    place.dataset().compact()
    return place.changing(lambda: lode.expire(place.dataset(), keep=1, dry_run=False, runtime=place.runtime))


CHANGES: Final[dict[str, Callable[[], Counts]]] = {
    "overwrite of one of 20 partitions": partial(
        _change, _of_partitions, lambda dataset: dataset.overwrite([{"day": "d03", "n": -1}])
    ),
    "delete of one of 20 partitions": partial(
        _change, _of_partitions, lambda dataset: dataset.delete("day = 'd04'")
    ),
    f"delete of a row in one of {_FILES} files": partial(
        _change, _of_files, lambda dataset: dataset.delete("n = 7")
    ),
    f"merge of 3 keys into {_FILES} files": partial(
        _change,
        _of_files,
        lambda dataset: dataset.merge([{"day": "x", "n": n} for n in (7, 8, 9_999)], on=["n"]),
    ),
    f"compact {_FILES} files": partial(_change, _of_files, lambda dataset: dataset.compact()),
    "restore": _restore,
    "tag": partial(_change, _of_files, lambda dataset: dataset.tag("t")),
    f"expire {_FILES} compacted files": _expire,
    f"sweep {_FILES} files": partial(
        _change, _of_files, lambda dataset: lode.sweep(dataset, timedelta(days=1), dry_run=False)
    ),
}
