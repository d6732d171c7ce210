"""What tasks of these tests do to themselves and to each other."""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import TaskContext, cloudpickle

import lode

if TYPE_CHECKING:
    from collections.abc import Iterator

# Spark's workers have no tests on their path.
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]


@dataclass(frozen=True)
class Trouble:
    """Hands on all rows; then, once so many files are staged, the first part of the job meets trouble."""

    root: str
    files: int
    attempts: int = 1

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        context = TaskContext.get()
        assert context is not None
        if context.partitionId() == 0 and context.attemptNumber() < self.attempts:
            if context.attemptNumber() == 0:
                self._wait()
            raise RuntimeError("this attempt fails")

    def _wait(self) -> None:
        for _ in range(6000):
            if sum(1 for _ in Path(self.root).rglob("data-*")) >= self.files:
                return
            time.sleep(0.05)
        raise TimeoutError(f"there never were {self.files} files")


@dataclass(frozen=True)
class RivalWrites:
    """Commits to the same dataset in the middle of the job."""

    lake: str
    dataset: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        context = TaskContext.get()
        if context is not None and context.partitionId() == 0:
            amount = pa.array([None], pa.decimal128(22, 1))
            lode.Dataset(self.dataset, self.lake, codec="parquet").write(
                pa.table({"id": [-1], "day": ["d9"], "amount": amount})
            )


class Deadly(lode.Parquet):
    """Ends the process that stages with it, in the first attempt of the first part, at its third file."""

    _begun = 0

    def stream_encoder(self, sink: Any) -> Any:
        context = TaskContext.get()
        assert context is not None
        Deadly._begun += 1
        if context.partitionId() == 0 and context.attemptNumber() == 0 and Deadly._begun == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().stream_encoder(sink)


class KillsExecutor(lode.Parquet):
    """Ends the whole executor, in the first attempt of the first part, at its third file; says which."""

    _begun = 0

    def stream_encoder(self, sink: Any) -> Any:
        context = TaskContext.get()
        assert context is not None
        KillsExecutor._begun += 1
        if context.partitionId() == 0 and context.attemptNumber() == 0 and KillsExecutor._begun == 3:
            daemon = Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()
            Path(os.environ["VICTIM"]).write_text(daemon[1])
            os.kill(int(daemon[1]), signal.SIGKILL)
            time.sleep(600)
        return super().stream_encoder(sink)
