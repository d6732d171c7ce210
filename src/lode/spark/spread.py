"""Do the same to many things, spread over Spark's tasks by what each costs."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from lode.errors import InvalidOptionError
from lode.runtime import REAL, one_by_one
from lode.store.protocol import is_in_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

    from lode.dataset import Dataset

T = TypeVar("T")
R = TypeVar("R")

# Several tasks for each core, so that one slow task does not keep the others waiting.
_TASKS_PER_CORE: Final = 4


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
    found: dict[int, R] = {}
    for part in spark.sparkContext.parallelize(work, len(work)).map(_Share(do, threads)).collect():
        found.update(part)
    return [found[index] for index in range(len(items))]


def slices_of(spark: SparkSession, costs: Sequence[int]) -> list[list[int]]:
    """The numbers of the items that each task gets."""
    return _balanced(costs, min(len(costs), spark.sparkContext.defaultParallelism * _TASKS_PER_CORE))


@dataclass(frozen=True, slots=True)
class _Share(Generic[T, R]):
    """What a task does. A class, because Spark pickles a function within one with all that it refers to."""

    do: Callable[[T], R]
    threads: bool

    def __call__(self, share: list[tuple[int, T]]) -> list[tuple[int, R]]:
        each = REAL.each if self.threads else one_by_one
        done: list[R] = each(lambda item: self.do(item[1]), share)
        return [(index, result) for (index, _), result in zip(share, done, strict=True)]


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
