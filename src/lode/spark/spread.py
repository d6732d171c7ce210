"""Do the same to many things, spread over Spark's tasks by what each costs."""

from __future__ import annotations

import heapq
import pickle
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import pyarrow as pa

from lode.errors import InvalidOptionError
from lode.runtime import REAL, one_by_one
from lode.spark.session import is_connect
from lode.store.protocol import is_in_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from lode.dataset import Dataset

T = TypeVar("T")
R = TypeVar("R")

# Several tasks for each core, so that one slow task does not keep the others waiting.
_TASKS_PER_CORE: Final = 4
# A client of Spark Connect does not know how many there are. The server has a task for each in any case.
_CONNECT_CORES: Final = 32


def spread(
    spark: SparkSession,
    do: Callable[[T], R],
    items: Sequence[T],
    costs: Sequence[int],
    *,
    threads: bool = True,
) -> list[R]:
    """Do it to every item on some executor; the results are in the items' order.

    Args:
        spark: The session.
        do: Pickles.
        items: They pickle too.
        costs: What each item costs, in any unit.
        threads: Whether several run at once within a task, for work that mostly waits for the store.
    """
    if not items:
        return []
    work = [[(index, items[index]) for index in indexes] for indexes in slices_of(spark, costs)]
    share = _Share(do, threads)
    found: dict[int, R] = {}
    if is_connect(spark):
        rows = work_frame(spark, work).mapInArrow(_InArrow(share), "result binary").collect()
        done = [pickle.loads(bytes(row[0])) for row in rows]
    else:
        done = spark.sparkContext.parallelize(work, len(work)).map(share).collect()
    for part in done:
        found.update(part)
    return [found[index] for index in range(len(items))]


def work_frame(spark: SparkSession, work: Sequence[object]) -> DataFrame:
    """A frame with one row for each piece of work, pickled, spread over tasks."""
    pickled = [pickle.dumps(piece) for piece in work]
    if is_connect(spark):
        return spark.createDataFrame([(piece,) for piece in pickled], "work binary")
    context = spark.sparkContext
    if len(work) <= context.defaultParallelism * _TASKS_PER_CORE:
        # Of an Arrow table Spark makes a task for each core, without a Python worker that makes its rows.
        return spark.createDataFrame(pa.table({"work": pa.array(pickled, pa.binary())}))
    rows = [(piece,) for piece in pickled]
    return spark.createDataFrame(context.parallelize(rows, len(rows)), "work binary")


def slices_of(spark: SparkSession, costs: Sequence[int]) -> list[list[int]]:
    """The numbers of the items that each task gets."""
    cores = _CONNECT_CORES if is_connect(spark) else spark.sparkContext.defaultParallelism
    return _balanced(costs, min(len(costs), cores * _TASKS_PER_CORE))


@dataclass(frozen=True, slots=True)
class _Share(Generic[T, R]):
    """What a task does. A class, because Spark pickles a function within one with all that it refers to."""

    do: Callable[[T], R]
    threads: bool

    def __call__(self, share: list[tuple[int, T]]) -> list[tuple[int, R]]:
        each = REAL.each if self.threads else one_by_one
        done: list[R] = each(lambda item: self.do(item[1]), share)
        return [(index, result) for (index, _), result in zip(share, done, strict=True)]


@dataclass(frozen=True, slots=True)
class _InArrow(Generic[T, R]):
    """Does the shares that it is given as rows."""

    share: _Share[T, R]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            work: list[Any] = batch.column(0).to_pylist()
            yield pa.record_batch({"result": [pickle.dumps(self.share(pickle.loads(each))) for each in work]})


def _balanced(costs: Sequence[int], count: int) -> list[list[int]]:
    """The numbers of the items in each slice: the largest first, each to the slice with the least so far."""
    slices: list[list[int]] = [[] for _ in range(count)]
    least = [(0, number) for number in range(count)]
    for index in sorted(range(len(costs)), key=lambda index: -costs[index]):
        total, number = heapq.heappop(least)
        slices[number].append(index)
        heapq.heappush(least, (total + costs[index], number))
    return [part for part in slices if part]


def reachable(dataset: Dataset) -> Dataset:
    """Return a dataset that tasks can open: it pickles, and its store is not in this process.

    Raises:
        InvalidOptionError: It is in memory.
    """
    if is_in_memory(dataset.store):
        raise InvalidOptionError(
            f"dataset {dataset.id!r} is in this process's memory, which Spark's executors cannot reach: "
            "open it on a directory they share or on a bucket"
        )
    return dataset
