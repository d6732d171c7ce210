"""Processes for the tests of the log: one appends until it is killed, one measures its memory."""

from __future__ import annotations

import random
import resource
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lode.ingest.log.stream_log import StreamLog

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

RECORD_ROWS = 50_000


def open_kept(directory: Path, **options: Any) -> StreamLog:
    """Open a log with its acknowledged length next to it."""
    return StreamLog.open(directory, acknowledged=directory.with_name("length"), **options)


def append_until_killed(directory: str, seed: int, acknowledge: Connection) -> None:
    """Append rows, marks and trims forever; after each, print the end of the log and its mark."""
    from .logs import batch

    chance = random.Random(seed)
    log = open_kept(Path(directory), segment_bytes=30_000)
    while True:
        sizes = [chance.choice([1, 7, 300]) for _ in range(chance.randint(1, 4))]
        log.append([batch(log.end + sum(sizes[:at]), size) for at, size in enumerate(sizes)])
        if chance.random() < 0.3:
            log.mark("ended", log.end)
        if chance.random() < 0.1:
            log.trim(chance.randint(log.start, log.end))
        acknowledge.send((log.start, log.end, log.marks.get("ended")))


def measure_reading(directory: str, megabytes: int) -> None:
    """Print how many MB the memory grows while a log of this many MB is read."""
    log = StreamLog.create(Path(directory), {}, durable=False)
    columns = {str(at): pa.array(range(at, at + RECORD_ROWS), pa.int64()) for at in range(6)}
    rows = pa.record_batch(columns)
    while log.bytes < megabytes << 20:
        log.append([rows])
    next(log.read(0, RECORD_ROWS))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    count = sum(batch.num_rows for batch in log.read(0, log.end))
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert count == log.end
    print((after - before) >> 10)


if __name__ == "__main__":
    measure_reading(sys.argv[1], int(sys.argv[2]))
