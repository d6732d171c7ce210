"""What tasks of these tests do to themselves."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import TaskContext, cloudpickle

import lode

if TYPE_CHECKING:
    from collections.abc import Iterator

# Spark's workers have no tests on their path.
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]


def _first_try_of_the_first_part() -> bool:
    context = TaskContext.get()
    assert context is not None
    return context.partitionId() == 0 and context.attemptNumber() == 0


def fail_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches
    if _first_try_of_the_first_part():
        raise RuntimeError("the first attempt fails")


def die_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Hand on all rows and die without a word, as a worker does that runs out of memory."""
    yield from batches
    if _first_try_of_the_first_part():
        os.kill(os.getpid(), signal.SIGKILL)


def fail_always(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches
    context = TaskContext.get()
    if context is not None and context.partitionId() == 0:
        raise RuntimeError("every attempt fails")


class RivalWrites:
    """Commits to the same dataset in the middle of the job."""

    def __init__(self, lake: str, dataset: str) -> None:
        self.lake = lake
        self.dataset = dataset

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        context = TaskContext.get()
        if context is not None and context.partitionId() == 0:
            lode.Dataset(self.dataset, self.lake, codec="parquet").write(pa.table({"id": [-1]}))
