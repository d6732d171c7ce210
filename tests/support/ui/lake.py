"""A lake worth looking at: three weeks of writes in a second, the same in every run."""

from __future__ import annotations

import math
import random
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import lode
from lode.runtime import Runtime, one_by_one

if TYPE_CHECKING:
    from lode.store import Store

COMMITS = 64
PAGES = ("/", "/pricing", "/docs", "/docs/volumes", "/blog")


class Clock:
    """A clock that moves only when it is told to, and a little with every look."""

    def __init__(self, start: datetime) -> None:
        self._ns = int(start.timestamp()) * 1_000_000_000

    def __call__(self) -> int:
        self._ns += 1_000_000
        return self._ns

    def pass_by(self, **length: float) -> None:
        self._ns += int(timedelta(**length).total_seconds() * 1e9)


def runtime_of(clock: Clock) -> Runtime:
    """A runtime that gives the same ids and times in every run."""
    return Runtime(
        now_ns=clock,
        random_bits=random.Random(7).getrandbits,
        each=one_by_one,
        background=lambda chore: chore(),
    )


def fill_lake(store: Store, *, until: datetime | None = None) -> None:
    """Write datasets of every kind, and a volume with holes."""
    end = until or datetime.now(UTC)
    clock = Clock(end - timedelta(days=21))
    _visits(store, clock)
    _others(store, Clock(end - timedelta(days=2)))
    _volumes(store, Clock(end - timedelta(hours=3)))


def _visits(store: Store, clock: Clock) -> None:
    """A partitioned dataset; every ninth commit meets another writer's and is rebased."""
    runtime = runtime_of(clock)
    ours = _open_visits(store, runtime)
    theirs = _open_visits(store, runtime)
    number = 0
    while number < COMMITS:
        day = datetime.fromtimestamp(clock() / 1e9, UTC).date()
        rows = _day_of_visits(day.isoformat(), number)
        if number % 9 == 7:
            with theirs.transaction({"source": "backfill", "note": "began first, was placed second"}) as late:
                late.stage(_day_of_visits((day - timedelta(days=30)).isoformat(), number + 1))
                ours.write(rows, {"source": "crawler", "batch": number})
                late.commit()
            number += 2
        else:
            writer = theirs if number % 9 == 8 else ours
            writer.write(
                rows, {"source": "crawler", "batch": number}, idempotency_key=("crawler", f"{number}")
            )
            number += 1
        clock.pass_by(hours=7.5)


def _open_visits(store: Store, runtime: Runtime) -> lode.Dataset:
    return lode.Dataset(
        "visits",
        store,
        codec=lode.Parquet({"day": "string!", "page": "string!", "visits": "int64", "share": "float64"}),
        layout=lode.HiveLayout("day"),
        checksum="sha256",
        retry=lode.Retry(3, base_delay=0.001),
        runtime=runtime,
    )


def _day_of_visits(day: str, seed: int) -> list[dict[str, object]]:
    size = int(40 + 35 * math.sin(seed / 5) + seed)
    return [
        {
            "day": day,
            "page": PAGES[(seed + row) % len(PAGES)],
            "visits": (seed * 37 + row * 11) % 900,
            "share": None if row % 13 == 5 else round((row * 7 % 100) / 100, 2),
        }
        for row in range(size)
    ]


def _others(store: Store, clock: Clock) -> None:
    runtime = runtime_of(clock)
    events = lode.Dataset("clicks.raw", store, codec="jsonl", compressor="gzip", runtime=runtime)
    for number in range(12):
        events.write([{"id": number * 10 + row, "tags": ["a", row], "big": 2**60 + row} for row in range(10)])
        clock.pass_by(hours=2.5)
    backups = lode.Dataset("backups", store, checksum="xxh3-128", runtime=runtime)
    backups.write(b"-- a dump\nCREATE TABLE visits (day text, page text);\n", {"host": "db-1", "tables": 14})
    backups.write(bytes(range(256)) * 40, {"host": "db-1", "format": {"name": "custom", "level": 9}})


def _volumes(store: Store, clock: Clock) -> None:
    runtime = runtime_of(clock)
    disk = lode.Volume("disk-image", store, 40_000_000, checksum="xxh3-128", runtime=runtime)
    disk.commit([disk.stage_write_at(0, bytes(11_000_000))], {"pass": 1})
    clock.pass_by(minutes=40)
    disk.commit(
        [disk.stage_write_at(14_000_000 + 300_000 * n, bytes(130_000)) for n in range(24)], {"pass": 2}
    )
    clock.pass_by(minutes=40)
    disk.commit([disk.stage_write_at(26_000_000, bytes(9_000_000))], {"pass": 3})
    whole = lode.Volume("firmware", store, 65_536, runtime=runtime)
    whole.commit([whole.stage_write_at(0, bytes(65_536))])
