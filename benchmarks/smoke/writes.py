"""What it takes to append: alone, after others, among many, to partitions, to a volume."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import lode
from benchmarks.scaling.crowd import simulate
from benchmarks.smoke.place import SCHEMA, Place
from lode.store import LocalStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.smoke.bounds import Counts

_ROW: Final = [{"day": "mon", "n": 1}]
_PARTITIONS: Final = 20
_BLOCK: Final = b"sixteen bytes ok"
_BLOCKS: Final = 100


def _first() -> Counts:
    place = Place()
    return place.writing(lambda: place.dataset(codec=lode.Parquet(SCHEMA)).write(_ROW))


def _warm() -> Counts:
    place = Place()
    dataset = place.filled(1)
    found = place.writing(lambda: dataset.write(_ROW))
    head = f"datasets/d/snapshots/{dataset.latest().id}"
    return {
        **found,
        "bytes of the manifest": len(place.store.get(f"{head}/manifest.json")),
        "bytes of the intent": len(place.store.get(f"{head}/intent.json")),
    }


def _on_disk() -> Counts:
    with tempfile.TemporaryDirectory(prefix="lode-smoke-") as folder:
        place = Place(LocalStore(Path(folder)))
        dataset = place.filled(1)
        return {"calls": place.writing(lambda: dataset.write(_ROW))["calls"]}


def _with_key() -> Counts:
    place = Place()
    dataset = place.filled(1)
    return place.writing(lambda: dataset.write(_ROW, idempotency_key="a"))


def _with_segments() -> Counts:
    place = Place()
    dataset = place.create()

    def work() -> None:
        for _ in range(256):
            dataset.write(_ROW)

    return place.writing(work)


def _to_partitions() -> Counts:
    place = Place()
    dataset = place.create(partitioned=True)
    dataset.write(_ROW)
    found = place.writing(
        lambda: dataset.write([{"day": f"d{day:02d}", "n": day} for day in range(_PARTITIONS)])
    )
    written = dataset.latest()
    copies = [
        entry.size
        for entry in place.store.list("datasets/d/partitions/")
        if entry.path.endswith(f"{written.id}/manifest.json")
    ]
    return {**found, "bytes of the copies": sum(copies), "files": len(written.files)}


def _behind() -> Counts:
    place = Place()
    early = place.create(partitioned=True)
    early.write(_ROW)
    late = place.dataset()
    late.transaction().abort()  # its first look
    for _ in range(200):
        early.write(_ROW)
    return place.changing(lambda: late.write([{"day": "tue", "n": 1}]))


def _crowd() -> Counts:
    found = simulate(16, warm=60, watched=160, seed=0)
    return {
        "requests that read, per commit": found.reads_per_commit,
        "requests that write, per commit": found.writes_per_commit,
    }


def _volume() -> Counts:
    place = Place()
    volume = lode.Volume("v", place.store, 1 << 20, checksum="xxh3-128", runtime=place.runtime)

    def staged(number: int) -> lode.BlockRef:
        return volume.stage_write_at(number * len(_BLOCK), _BLOCK)

    volume.commit([staged(number) for number in range(_BLOCKS)])
    block = staged(_BLOCKS)
    return place.writing(lambda: volume.commit([block]))


WRITES: Final[dict[str, Callable[[], Counts]]] = {
    "first append": _first,
    "warm append": _warm,
    "warm append on a disk": _on_disk,
    "warm append with an idempotency key": _with_key,
    "256 appends with their history segments": _with_segments,
    f"append to {_PARTITIONS} partitions": _to_partitions,
    "append behind 200 commits of others": _behind,
    "append of one of 16 writers, simulated": _crowd,
    f"volume commit of one block after {_BLOCKS}": _volume,
}
