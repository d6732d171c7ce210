"""What the readers take for all rows, and for those of one file."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Any

from benchmarks.rounds import Sample, verify
from benchmarks.spark.session import (
    DATASET,
    PARTS,
    frame,
    in_turn,
    row_count,
    session,
    timed,
    url,
    write_dataset,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    Reader = Callable[[str | None], DataFrame]

PLAIN = "Spark, spark.read.parquet on the same files"
OURS = "Lode, lode.spark.read"
FORMAT = 'Lode, spark.read.format("lode")'
READERS = (PLAIN, OURS, FORMAT)
# Something of every column that is the same in whichever order the rows come.
_TOTALS = (
    "count(*)",
    "sum(id)",
    "max(at)",
    "sum(length(kind))",
    "sum(length(place))",
    "max(value)",
    "sum(count)",
)


def measure(root: str, count: int, rounds: int, only: list[str]) -> list[Any]:
    """In a child: seconds of each, for all rows, then for one file's."""
    with session() as spark, tempfile.TemporaryDirectory(dir=root) as target:
        files = write_dataset(target, frame(spark, count, PARTS))
        verify((row_count(files), len(files)), (count, PARTS), "rows and files to read")
        first = count // PARTS
        where = f"id >= {first} and id < {2 * first}"

        def plain(condition: str | None) -> DataFrame:
            df = spark.read.parquet(*(str(file) for file in files))
            return df if condition is None else df.where(condition)

        def read(condition: str | None) -> DataFrame:
            import lode.spark

            return lode.spark.read(spark, url(target), DATASET, where=condition)

        def load(condition: str | None) -> DataFrame:
            df = spark.read.format("lode").options(path=url(target), dataset=DATASET).load()
            return df if condition is None else df.where(condition)

        expected = {
            None: _totals(frame(spark, count, PARTS)),
            where: _totals(frame(spark, count, PARTS).where(where)),
        }

        def measured(condition: str | None) -> Callable[[Reader], Sample]:
            def work(reader: Reader) -> Sample:
                took, totals = timed(lambda: _totals(reader(condition)))
                verify(totals, expected[condition], "the aggregate")
                return [took]

            return work

        readers: dict[str, Reader] = {PLAIN: plain, OURS: read, FORMAT: load}
        return [
            in_turn(readers, measured(condition), rounds, only, label)
            for condition, label in ((None, "read all"), (where, "read one file's rows"))
        ]


def _totals(df: DataFrame) -> list[Any]:
    return list(df.selectExpr(*_TOTALS).collect()[0])
