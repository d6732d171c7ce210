"""What the readers take for all rows, for those of one file, and for two columns."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Any

from benchmarks.rounds import Sample, verify
from benchmarks.spark.floor import FloorSource
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
NAMED = "Lode, format lode with columns named"
FLOOR = "floor: a Python source that only reads the files"
COLUMN_READERS = (PLAIN, OURS, NAMED, FLOOR)
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


_TWO_COLUMNS = "id long, count int"
_TWO_TOTALS = ("count(*)", "sum(id)", "sum(count)")


def measure(root: str, count: int, rounds: int, only: list[str]) -> list[Any]:
    """In a child: seconds of each, for all rows, then for one file's, then for two columns."""
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
        found = [
            in_turn(readers, measured(condition), rounds, only, label)
            for condition, label in ((None, "read all"), (where, "read one file's rows"))
        ]

        def named(form: str, **options: str) -> Callable[[], DataFrame]:
            return lambda: spark.read.format(form).schema(_TWO_COLUMNS).options(**options).load()

        spark.dataSource.register(FloorSource)
        expected_of_two = _totals(frame(spark, count, PARTS), _TWO_TOTALS)

        def of_two(reader: Callable[[], DataFrame]) -> Sample:
            took, totals = timed(lambda: _totals(reader(), _TWO_TOTALS))
            verify(totals, expected_of_two, "the aggregate")
            return [took]

        column_readers: dict[str, Callable[[], DataFrame]] = {
            PLAIN: lambda: plain(None),
            OURS: lambda: read(None),
            NAMED: named("lode", path=url(target), dataset=DATASET),
            FLOOR: named("floor", paths="\n".join(map(str, files))),
        }
        return [*found, in_turn(column_readers, of_two, rounds, only, "read two columns")]


def _totals(df: DataFrame, totals: tuple[str, ...] = _TOTALS) -> list[Any]:
    return list(df.selectExpr(*totals).collect()[0])
