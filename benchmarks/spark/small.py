"""What rows in many small files take, against the same rows in one file."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Any

from benchmarks.rounds import Sample, verify
from benchmarks.spark.session import DATASET, frame, in_turn, session, timed, url

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    import lode

PLAIN = "Spark, one file of the same rows"
MANY = "floor: Spark, spark.read.parquet on the folder of the small files"
OURS = "Lode, lode.spark.read of the small files"
COMPACTED = "Lode, lode.spark.read after compaction"
READERS = (PLAIN, MANY, OURS, COMPACTED)
COUNTS = (500, 5_000)
_ROWS_PER_FILE = 200


def measure(root: str, rounds: int, only: list[str]) -> list[Any]:
    """In a child: seconds of each, for every number of files."""
    with session() as spark:
        found = []
        for count in COUNTS:
            with tempfile.TemporaryDirectory(dir=root) as target:
                rows = count * _ROWS_PER_FILE
                df = frame(spark, rows, 1)
                one = f"{target}/one"
                df.write.options(compression="zstd").parquet(one)
                dataset = _small_files(target, df)
                files = [f"{target}/{file.path}" for file in dataset.latest().files]
                verify(len(files), count, "small files")
                before = dataset.latest().id
                dataset.compact()
                verify(len(dataset.plan().files), 1, "files after compaction")

                readers: dict[str, Callable[[], DataFrame]] = {
                    PLAIN: _parquet(spark, one),
                    # By their folder: given as paths, Spark lists each of them in a task of its own.
                    MANY: _parquet(spark, files[0].rpartition("/")[0]),
                    OURS: _dataset(spark, target, before),
                    COMPACTED: _dataset(spark, target, None),
                }

                def measured(reader: Callable[[], DataFrame], rows: int = rows) -> Sample:
                    took, totals = timed(lambda: _totals(reader()))
                    verify(totals, [rows, rows * (rows - 1) // 2], "the aggregate")
                    return [took]

                found.append(in_turn(readers, measured, rounds, only, f"{count:,} small files"))
        return found


def _small_files(target: str, df: DataFrame) -> lode.Dataset:
    """A dataset with the rows in files of a few each, as a busy writer leaves them."""
    import lode

    dataset = lode.Dataset(DATASET, url(target), codec="parquet", checksum="xxh3-128")
    rows = df.toArrow()
    with dataset.transaction() as transaction:
        for number, start in enumerate(range(0, rows.num_rows, _ROWS_PER_FILE)):
            transaction.stage(rows.slice(start, _ROWS_PER_FILE), task=f"{number}")
        transaction.commit()
    return dataset


def _parquet(spark: Any, *paths: str) -> Callable[[], DataFrame]:
    return lambda: spark.read.parquet(*paths)


def _dataset(spark: Any, target: str, as_of: str | None) -> Callable[[], DataFrame]:
    import lode.spark

    return lambda: lode.spark.read(spark, url(target), DATASET, as_of=as_of)


def _totals(df: DataFrame) -> list[Any]:
    return list(df.selectExpr("count(*)", "sum(id)").collect()[0])
