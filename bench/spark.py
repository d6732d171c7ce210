"""What Spark jobs cost with Lode, against the same jobs on plain Parquet: writes, reads, a micro-batch."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow.parquet as pq

from bench.measure import in_child, progress
from bench.table import Row, Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession

    import lode
    from bench.options import Options

PLAIN_WRITE = "Spark, df.write.parquet"
SAME_LEVEL = "Spark, df.write.parquet, zstd level 1"
PLAIN_READ = "Spark, spark.read.parquet on the same files"
PLAIN_STREAM = "Spark, Parquet files to Parquet files"

_DATASET = "events"
_PARTS = 8
_STREAM_ROWS = 1_000_000
_EXPRESSIONS = (
    "id",
    "timestamp_micros(1700000000000000 + id * 1000) as at",
    "concat('kind-', pmod(xxhash64(id), 8)) as kind",
    "concat('place-', lpad(pmod(xxhash64(id, 1), 500), 4, '0')) as place",
    "randn(7) as value",
    "cast(pmod(xxhash64(id, 2), 1000) as int) as count",
)
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
_SETTINGS = {
    "spark.driver.memory": "4g",
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "2",
    # A moment is eight bytes in both one's files, not the twelve that Spark writes by default.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}

# Numbers of one round; the first is seconds.
Sample = list[float]
Samples = dict[str, list[Sample]]
Work = TypeVar("Work")
Result = TypeVar("Result")


def run(options: Options) -> list[Table]:
    count = 1_000_000 if options.quick else 10_000_000
    only = list(options.only)
    with options.scratch() as root:
        writes: Samples = in_child(write_times, root=str(root), count=count, rounds=3, only=only)
        whole, filtered = in_child(read_times, root=str(root), count=count, rounds=5, only=only)
        streams: Samples = in_child(stream_times, root=str(root), rounds=3, only=only)
    return [
        Table(
            f"Spark: write of {count:,} rows x 6 columns in {_PARTS} tasks, zstd, local[2]",
            ["seconds", "bytes written, MB"],
            _rows(writes, PLAIN_WRITE),
            ratios=["seconds"],
            notes=[
                "Medians of 3, in turn in one session, after one round to warm up; the rows are in Spark's "
                "cache; not synced.",
                "Lode with statistics and an xxh3-128 checksum of every file.",
            ],
        ),
        Table(
            f"Spark: an aggregate over all columns of {count:,} rows, {_PARTS} files, local[2]",
            ["seconds"],
            _rows(whole, PLAIN_READ),
            ratios=["seconds"],
            notes=[
                "Medians of 5, in turn in one session, after one round to warm up; planning included.",
                "The files are in the page cache.",
            ],
        ),
        Table(
            f"Spark: the same where id is in a range that only one of the {_PARTS} files has, local[2]",
            ["seconds"],
            _rows(filtered, PLAIN_READ),
            ratios=["seconds"],
            notes=["Medians of 5, in turn in the same session, after one round to warm up."],
        ),
        Table(
            f"Spark: a micro-batch of {_STREAM_ROWS:,} rows x 6 columns, Trigger.AvailableNow, local[2]",
            ["query, s", "micro-batch, s"],
            _rows(streams, PLAIN_STREAM),
            ratios=["query, s", "micro-batch, s"],
            notes=[
                "Medians of 3, in turn in one session, after one round to warm up.",
                "Both from the same two files.",
                "The query from start() until it has ended; the micro-batch as Spark reports it.",
                "Lode with statistics and an xxh3-128 checksum of every file, both zstd.",
            ],
        ),
    ]


def _rows(samples: Samples, baseline: str) -> list[Row]:
    return [
        Row(
            name,
            [median(column) for column in zip(*rounds, strict=True)],
            None if name == baseline else baseline,
        )
        for name, rounds in samples.items()
    ]


def write_times(root: str, count: int, rounds: int, only: list[str]) -> Samples:
    """In a child: what the writers take for the same cached rows."""
    with _session() as spark:
        df = _frame(spark, count, _PARTS).cache()
        _same(df.count(), count)

        def plain(target: str, **options: str) -> list[Path]:
            df.write.options(compression="zstd", **options).parquet(f"{target}/plain")
            return list(Path(f"{target}/plain").glob("part-*"))

        def write(target: str) -> list[Path]:
            return _write(target, df)

        def save(target: str) -> list[Path]:
            named = {"path": _url(target), "dataset": _DATASET, "checksum": "xxh3-128"}
            df.write.format("lode").options(**named).mode("append").save()
            return _files(target)

        writers: dict[str, Callable[[str], list[Path]]] = {
            PLAIN_WRITE: plain,
            SAME_LEVEL: lambda target: plain(target, **{"parquet.compression.codec.zstd.level": "1"}),
            "Lode, lode.spark.write": write,
            'Lode, df.write.format("lode")': save,
        }

        def measured(work: Callable[[str], list[Path]]) -> Sample:
            with tempfile.TemporaryDirectory(dir=root) as target:
                took, files = _timed(lambda: work(target))
                _same(_row_count(files), count)
                return [took, sum(file.stat().st_size for file in files) / 1e6]

        return _in_turn(_chosen(writers, only), measured, rounds)


def read_times(root: str, count: int, rounds: int, only: list[str]) -> tuple[Samples, Samples]:
    """In a child: what the readers take for all rows, and for those of one file."""
    with _session() as spark, tempfile.TemporaryDirectory(dir=root) as target:
        files = _write(target, _frame(spark, count, _PARTS))
        _same((_row_count(files), len(files)), (count, _PARTS))
        first = count // _PARTS
        where = f"id >= {first} and id < {2 * first}"

        def plain(condition: str | None) -> DataFrame:
            df = spark.read.parquet(*(str(file) for file in files))
            return df if condition is None else df.where(condition)

        def read(condition: str | None) -> DataFrame:
            import lode.spark

            return lode.spark.read(spark, _url(target), _DATASET, where=condition)

        def load(condition: str | None) -> DataFrame:
            df = spark.read.format("lode").options(path=_url(target), dataset=_DATASET).load()
            return df if condition is None else df.where(condition)

        readers: dict[str, Callable[[str | None], DataFrame]] = {
            PLAIN_READ: plain,
            "Lode, lode.spark.read": read,
            'Lode, spark.read.format("lode")': load,
        }
        expected = {
            None: _totals(_frame(spark, count, _PARTS)),
            where: _totals(_frame(spark, count, _PARTS).where(where)),
        }

        def measured(condition: str | None) -> Callable[[Callable[[str | None], DataFrame]], Sample]:
            def measure(work: Callable[[str | None], DataFrame]) -> Sample:
                took, totals = _timed(lambda: _totals(work(condition)))
                _same(totals, expected[condition])
                return [took]

            return measure

        chosen = _chosen(readers, only)
        whole = _in_turn(chosen, measured(None), rounds)
        return whole, _in_turn(chosen, measured(where), rounds)


def stream_times(root: str, rounds: int, only: list[str]) -> Samples:
    """In a child: what one micro-batch takes from files to files, and from dataset to dataset."""
    with _session() as spark, tempfile.TemporaryDirectory(dir=root) as source:
        files = _write(source, _frame(spark, _STREAM_ROWS, 2))
        schema = spark.read.parquet(*(str(file) for file in files)).schema

        def plain(target: str) -> Any:
            rows = spark.readStream.schema(schema).parquet(str(files[0].parent))
            return rows.writeStream.format("parquet").options(path=f"{target}/plain", compression="zstd")

        def ours(target: str) -> Any:
            stream = spark.readStream.format("lode").schema(schema)
            rows = stream.options(path=_url(source), dataset=_DATASET).load()
            named = {"path": _url(target), "dataset": _DATASET, "checksum": "xxh3-128"}
            return rows.writeStream.format("lode").options(**named)

        def measured(stream: Callable[[str], Any]) -> Sample:
            with tempfile.TemporaryDirectory(dir=root) as target:

                def work() -> list[dict[str, Any]]:
                    writer = stream(target).option("checkpointLocation", f"{target}/checkpoint")
                    query = writer.trigger(availableNow=True).start()
                    query.awaitTermination()
                    return list(query.recentProgress)

                took, batches = _timed(work)
                found = list(Path(f"{target}/plain").glob("part-*")) or _files(target)
                _same(_row_count(found), _STREAM_ROWS)
                return [took, sum(batch["durationMs"]["triggerExecution"] for batch in batches) / 1000]

        streams: dict[str, Callable[[str], Any]] = {PLAIN_STREAM: plain, "Lode, dataset to dataset": ours}
        return _in_turn(_chosen(streams, only), measured, rounds)


def _in_turn(works: dict[str, Work], measure: Callable[[Work], Sample], rounds: int) -> Samples:
    samples: Samples = {name: [] for name in works}
    for number in range(rounds + 1):
        for name, work in works.items():
            sample = measure(work)
            progress(f"{name}: {[round(value, 2) for value in sample]}{'' if number else ', to warm up'}")
            if number:
                samples[name].append(sample)
    return samples


def _chosen(works: dict[str, Work], only: list[str]) -> dict[str, Work]:
    return {name: work for name, work in works.items() if not only or any(part in name for part in only)}


@contextmanager
def _session() -> Iterator[SparkSession]:
    import lode.spark

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = lode.spark.session("local[2]", name="lode-bench", settings=_SETTINGS)
    try:
        yield spark
    finally:
        spark.stop()


def _frame(spark: SparkSession, count: int, parts: int) -> DataFrame:
    return spark.range(0, count, 1, parts).selectExpr(*_EXPRESSIONS)


def _totals(df: DataFrame) -> list[Any]:
    return list(df.selectExpr(*_TOTALS).collect()[0])


def _write(target: str, df: DataFrame) -> list[Path]:
    import lode.spark

    snapshot = lode.spark.write(_dataset(target), df)
    return [Path(target, file.path) for file in snapshot.files]


def _files(target: str) -> list[Path]:
    """The data files of a dataset that a job made, which has one snapshot with checksums and statistics."""
    (snapshot,) = _dataset(target).snapshots()
    if not all(file.checksum and file.stats for file in snapshot.files):
        raise RuntimeError("a file has no checksum or no statistics")
    return [Path(target, file.path) for file in snapshot.files]


def _dataset(target: str) -> lode.Dataset:
    import lode

    return lode.Dataset(_DATASET, _url(target), codec="parquet", checksum="xxh3-128")


def _url(target: str) -> str:
    return f"file://{target}?durable=false"


def _row_count(files: list[Path]) -> int:
    return sum(pq.read_metadata(file).num_rows for file in files)


def _same(found: object, expected: object) -> None:
    if found != expected:
        raise RuntimeError(f"expected {expected}, found {found}")


def _timed(work: Callable[[], Result]) -> tuple[float, Result]:
    began = time.perf_counter()
    result = work()
    return time.perf_counter() - began, result
