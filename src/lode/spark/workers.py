"""Tasks of Spark as the workers of an operation: they read and rewrite files, the driver commits."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from pyspark import TaskContext
from pyspark.sql import SparkSession

from lode.change.base import Part, Workers
from lode.errors import DataError, InvalidOptionError, LodeError, NotFoundError, UsageError
from lode.spark.spread import spread
from lode.spark.staging import discard_unreferenced
from lode.spark.write import stage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark.sql import DataFrame

    from lode.change.base import Progress
    from lode.change.overwrite import Fulfils
    from lode.format.manifest import FileRef
    from lode.write.stage import Staged, Stager

T = TypeVar("T")

# What opening a file costs, counted in bytes.
_OPEN_BYTES: Final = 256 << 10


class TaskWorkers(Workers):
    """Runs the parts of an operation in tasks.

    Args:
        spark: The session. Default: the active one.
    """

    def __init__(self, spark: SparkSession | None = None) -> None:
        found = SparkSession.getActiveSession() if spark is None else spark
        if found is None:
            raise InvalidOptionError("no Spark session is active: make one with lode.spark.session()")
        self.spark = found
        # Whether there may be files of attempts that failed or lost.
        self._lost = False

    def each(self, do: Callable[[Part], T], parts: Sequence[Part], progress: Progress | None) -> list[T]:
        if not parts:
            return []
        with self.staging() as note:
            done = spread(self.spark, _InTask(do), parts, [cost_of(part) for part in parts], threads=False)
            for answer in done:
                if isinstance(answer.result, LodeError):
                    raise answer.result
            note(answer.attempt for answer in done)
        return [answer.result for answer in done]

    def stage(self, df: DataFrame, stager: Stager, check: Fulfils | None = None) -> list[Staged]:
        """Stage the rows of a frame."""
        with self.staging() as note:
            done = stage(df, stager, check)
            note(result.attempt for result in done)
        return [result.staged for result in done]

    @contextmanager
    def staging(self) -> Iterator[Callable[[Iterable[int]], None]]:
        """Run tasks that stage files. Call what it yields with the number of earlier attempts of each."""
        before, self._lost = self._lost, True

        def note(attempts: Iterable[int]) -> None:
            self._lost = before or any(attempts)

        yield note

    def clean(self, stager: Stager, kept: Iterable[FileRef]) -> None:
        if self._lost:
            discard_unreferenced(stager, kept)


def cost_of(part: Part) -> int:
    """What it costs to read some files."""
    return sum(_OPEN_BYTES + file.size_bytes for manifest in part for file in manifest.files)


def attempt_number() -> int:
    """How often the task this runs in was tried before."""
    context = TaskContext.get()
    return context.attemptNumber() if context else 0


@dataclass(frozen=True, slots=True)
class _Answer:
    result: Any
    attempt: int


@dataclass(frozen=True, slots=True)
class _InTask(Generic[T]):
    """Returns an error that would come again in a second attempt, so that Spark makes none."""

    do: Callable[[Part], T]

    def __call__(self, part: Part) -> _Answer:
        try:
            return _Answer(self.do(part), attempt_number())
        except (DataError, UsageError, NotFoundError) as error:
            return _Answer(error, attempt_number())
