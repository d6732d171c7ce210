"""Logs whose row at offset n has the number n, so that reading them shows missing or moved rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pathlib import Path

    from lode.ingest.log.stream_log import StreamLog

FACTS = {"name": "projects/p/datasets/d/tables/t/streams/s", "type": "PENDING"}


def batch(first: int, count: int) -> pa.RecordBatch:
    """Rows from ``first`` on; the text makes records differ in size."""
    numbers = range(first, first + count)
    texts = ["x" * (number % 23) for number in numbers]
    return pa.record_batch([pa.array(numbers, pa.int64()), pa.array(texts, pa.string())], ["number", "text"])


def numbers(log: StreamLog, start: int | None = None, stop: int | None = None) -> list[int]:
    """The numbers of the rows, by default of all."""
    found: list[int] = []
    for read in log.read(log.start if start is None else start, log.end if stop is None else stop):
        read.validate(full=True)
        rows = read.to_pylist()
        assert all(row["text"] == "x" * (row["number"] % 23) for row in rows)
        found += [row["number"] for row in rows]
    return found


def holds_its_rows(log: StreamLog) -> bool:
    """Whether every row from the start to the end is at its offset."""
    return numbers(log) == list(range(log.start, log.end))


def segments(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.log"))
