"""The session, the rows and the dataset that all Spark jobs of the benchmark share."""

from __future__ import annotations

import os
import sys
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import pyarrow.parquet as pq

from benchmarks.rounds import VerificationError, in_rounds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    import lode
    from benchmarks.rounds import Sample

DATASET = "events"
PARTS = 8
_EXPRESSIONS = (
    "id",
    "timestamp_micros(1700000000000000 + id * 1000) as at",
    "concat('kind-', pmod(xxhash64(id), 8)) as kind",
    "concat('place-', lpad(pmod(xxhash64(id, 1), 500), 4, '0')) as place",
    "randn(7) as value",
    "cast(pmod(xxhash64(id, 2), 1000) as int) as count",
)
_SETTINGS = {
    "spark.driver.memory": "4g",
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "2",
    # A moment is eight bytes in both one's files, not the twelve that Spark writes by default.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}

Work = TypeVar("Work")
Result = TypeVar("Result")


@contextmanager
def session(settings: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    import lode.spark

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    together = {**_SETTINGS, **(settings or {})}
    spark = lode.spark.session("local[2]", name="lode-bench", settings=together)
    try:
        yield spark
    finally:
        spark.stop()


def in_turn(
    works: dict[str, Work], measure: Callable[[Work], Sample], rounds: int, only: Sequence[str], label: str
) -> Any:
    """The outcomes of those that were asked for, as they pass to the parent."""
    chosen = {
        name: partial(measure, work)
        for name, work in works.items()
        if not only or any(part in name for part in only)
    }
    return msgspec.to_builtins(in_rounds(chosen, rounds, label=label, warm_up=True))


def frame(spark: SparkSession, count: int, parts: int) -> DataFrame:
    return spark.range(0, count, 1, parts).selectExpr(*_EXPRESSIONS)


def write_dataset(target: str, df: DataFrame) -> list[Path]:
    import lode.spark

    snapshot = lode.spark.write(dataset_at(target), df)
    return [Path(target, file.path) for file in snapshot.files]


def files_of(target: str) -> list[Path]:
    """The data files of a dataset that a job made, which has one snapshot with checksums and statistics."""
    (snapshot,) = dataset_at(target).snapshots()
    if not all(file.checksum and file.stats for file in snapshot.files):
        raise VerificationError("a file has no checksum or no statistics")
    return [Path(target, file.path) for file in snapshot.files]


def dataset_at(target: str) -> lode.Dataset:
    import lode

    return lode.Dataset(DATASET, url(target), codec="parquet", checksum="xxh3-128")


def url(target: str) -> str:
    return f"file://{target}?durable=false"


def row_count(files: list[Path]) -> int:
    return sum(pq.read_metadata(file).num_rows for file in files)


def timed(work: Callable[[], Result]) -> tuple[float, Result]:
    began = time.perf_counter()
    result = work()
    return time.perf_counter() - began, result
