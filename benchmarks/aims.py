"""Where we want to be, in one place."""

from __future__ import annotations

from typing import Final

from benchmarks.aim import Aim

_PEERS = ("Delta", "Iceberg", "Lance")
_DEPTHS = ("10", "500", "2,000", "5,000")
_PLAIN_SPARK_READ = "Spark, spark.read.parquet on the same files"
_ONE_FILE = "Spark, one file of the same rows"
_SMALL_FILES = "Lode, lode.spark.read of the small files"
_COMPACTED = "Lode, lode.spark.read after compaction"
_NAMED = 'Lode, spark.read.format("lode") with columns named'
_BOTH = ("default", "committed")
_MEMORY = "server memory, MB"
_PEAK = "peak over idle, MB"

AIMS: Final = (
    # The floor made 206 commits/s where the aim was 150, and 20.7 where it was 15.
    Aim(
        "16 writers on disk: commits/s against the floor",
        "commit", "contention-disk-16", "Lode", ("commits/s",),
        at_least=0.73, to=("floor",), short=True,
    ),
    Aim(
        "16 writers on disk: commits/s against Lance",
        "commit", "contention-disk-16", "Lode", ("commits/s",),
        at_least=1, to=("Lance",), short=True,
    ),
    Aim(
        "16 writers on disk: conflicts the caller saw",
        "commit", "contention-disk-16", "Lode", ("conflicts seen",),
        at_most=0,
    ),
    Aim(
        "16 writers on disk: slowest commit",
        "commit", "contention-disk-16", "Lode", ("slowest, s",),
        at_most=2, unit=" s",
    ),
    Aim(
        "16 writers on S3: commits/s against the floor",
        "commit", "contention-s3-16", "Lode", ("commits/s",),
        at_least=0.72, to=("floor",), short=True,
    ),
    Aim(
        "16 writers on S3: conflicts the caller saw",
        "commit", "contention-s3-16", "Lode", ("conflicts seen",),
        at_most=0,
    ),
    Aim(
        "16 writers on S3: slowest commit",
        "commit", "contention-s3-16", "Lode", ("slowest, s",),
        at_most=5, unit=" s",
    ),
    Aim(
        "16 writers on S3: requests for a commit, against all",
        "commit", "contention-s3-16", "Lode", ("requests/commit",),
        at_most=1, to=("floor", *_PEERS),
    ),
    Aim(
        "small append on disk, at any depth",
        "commit", "latency-disk", "Lode", _DEPTHS,
        at_most=2, to=("floor",), short=True,
    ),
    Aim(
        "small append on disk, synced, at any depth",
        "commit", "latency-disk", "Lode, synced", _DEPTHS,
        at_most=2, to=("floor, synced",),
    ),
    Aim(
        "small append on disk: commit 5,000 against commit 10",
        "commit", "latency-disk", "Lode", ("5,000",),
        at_most=1.1, to_column="10", short=True,
    ),
    Aim(
        "small append on S3, at any depth",
        "commit", "latency-s3", "Lode", ("10", "100", "500"),
        at_most=2, to=("floor",),
    ),
    Aim(
        "small append on S3: commit 500 against commit 10",
        "commit", "latency-s3", "Lode", ("500",),
        at_most=1.1, to_column="10",
    ),
    Aim(
        "smallest writes, against Go",
        "commit", "smallest", "Lode", ("one JSON record", "two hive partitions"),
        at_most=2, to=("Go",),
    ),
    Aim(
        "open and plan, at any depth, against every peer",
        "open", "open", "Lode", _DEPTHS,
        at_most=1, to=_PEERS, short=True,
    ),
    Aim(
        "open and plan after 5,000 commits: store reads",
        "open", "open", "Lode: store reads", ("5,000",),
        at_most=40,
    ),
    Aim(
        "bulk write",
        "tables", "write", "Lode", ("seconds",),
        at_most=1.05, to=("pyarrow, two files in two threads",), short=True,
    ),
    Aim(
        "full scan",
        "tables", "scan", "Lode", ("seconds",),
        at_most=1.1, to=("pyarrow.dataset on Lode's files",), short=True,
    ),
    Aim(
        "stream_write, xxh3-128",
        "blob", "blob", "Lode stream_write, xxh3-128", ("seconds",),
        at_most=1.1, to=("plain file, xxh3-128",), short=True,
    ),
    Aim(
        "stream_write, md5",
        "blob", "blob", "Lode stream_write, md5", ("seconds",),
        at_most=1.1, to=("plain file, md5",),
    ),
    Aim(
        "stream_write: memory, against that of an eighth of the bytes",
        "blob", "blob", "Lode stream_write, xxh3-128", (_PEAK,),
        at_most=1.25, to=("Lode stream_write, xxh3-128, an eighth of the bytes",),
    ),
    Aim(
        "ingest, Arrow, 1,000 rows/append, default and committed: rows/s",
        "ingest", "arrow-1000-1", "Lode", _BOTH,
        at_least=20, to=("bqemulator",), short=True,
    ),
    Aim(
        "the same: server memory",
        "ingest", "arrow-1000-1", "Lode", (_MEMORY,),
        at_most=500, unit=" MB",
    ),
    Aim(
        "ingest, the same on 4 connections: rows/s",
        "ingest", "arrow-1000-4", "Lode", _BOTH,
        at_least=30, to=("bqemulator",), short=True,
    ),
    Aim(
        "ingest, one append at a time, default: p50",
        "ingest", "lone", "Lode, default", ("p50, ms",),
        at_most=5, unit=" ms",
    ),
    Aim(
        "ingest, one append at a time, committed: p50",
        "ingest", "lone", "Lode, committed", ("p50, ms",),
        at_most=5, unit=" ms",
    ),
    Aim(
        "ingest, Arrow, 50,000 rows/append, default and committed: rows/s",
        "ingest", "arrow-50000-1", "Lode", _BOTH,
        at_least=5, to=("bqemulator",),
    ),
    Aim(
        "ingest, Arrow, 1,000 rows/append, pending: rows/s",
        "ingest", "arrow-1000-1", "Lode", ("pending",),
        at_least=1, to=("bqemulator",),
    ),
    Aim(
        "ingest, Arrow, 50,000 rows/append, pending: rows/s",
        "ingest", "arrow-50000-1", "Lode", ("pending",),
        at_least=1, to=("bqemulator",),
    ),
    Aim(
        "ingest, Protobuf, 1,000 rows/append, default and committed: rows/s",
        "ingest", "protobuf-1000-1", "Lode", _BOTH,
        at_least=20, to=("bqemulator",), short=True,
    ),
    Aim(
        "ingest, Protobuf, 1,000 rows/append, pending: rows/s",
        "ingest", "protobuf-1000-1", "Lode", ("pending",),
        at_least=15, to=("bqemulator",),
    ),
    Aim(
        "ingest: idle calls held open",
        "ingest", "idle", "Lode", ("idle calls answered",),
        at_least=1000,
    ),
    Aim(
        "Spark: lode.spark.write",
        "spark", "write", "Lode, lode.spark.write", ("seconds",),
        at_most=0.8, to=("Spark, df.write.parquet",), short=True,
    ),
    Aim(
        'Spark: df.write.format("lode")',
        "spark", "write", 'Lode, df.write.format("lode")', ("seconds",),
        at_most=0.8, to=("Spark, df.write.parquet",),
    ),
    Aim(
        "Spark: lode.spark.read",
        "spark", "read", "Lode, lode.spark.read", ("seconds",),
        at_most=1, to=(_PLAIN_SPARK_READ,), short=True,
    ),
    Aim(
        "Spark: lode.spark.read where files are pruned",
        "spark", "read-one", "Lode, lode.spark.read", ("seconds",),
        at_most=1, to=(_PLAIN_SPARK_READ,),
    ),
    Aim(
        "Spark: 500 small files, against one file of the same rows",
        "spark", "small-500", _SMALL_FILES, ("seconds",),
        at_most=3, to=(_ONE_FILE,),
    ),
    Aim(
        "Spark: 5,000 small files, against one file of the same rows",
        "spark", "small-5000", _SMALL_FILES, ("seconds",),
        at_most=3, to=(_ONE_FILE,),
    ),
    Aim(
        "Spark: 5,000 small files, against plain Spark on their folder",
        "spark", "small-5000", _SMALL_FILES, ("seconds",),
        at_most=1, to=("floor: Spark, spark.read.parquet on the folder of the small files",),
    ),
    Aim(
        "Spark: 500 small files after compaction, against one file of the same rows",
        "spark", "small-500", _COMPACTED, ("seconds",),
        at_most=1.2, to=(_ONE_FILE,),
    ),
    Aim(
        "Spark: 5,000 small files after compaction, against one file of the same rows",
        "spark", "small-5000", _COMPACTED, ("seconds",),
        at_most=1.2, to=(_ONE_FILE,),
    ),
    Aim(
        'Spark: spark.read.format("lode") with columns named',
        "spark", "read-two", _NAMED, ("seconds",),
        at_most=1.2, to=(_PLAIN_SPARK_READ,),
    ),
    Aim(
        'Spark: spark.read.format("lode") with columns named, against the floor of a Python source',
        "spark", "read-two", _NAMED, ("seconds",),
        at_most=1.2, to=("floor: a Python source that only reads the files",),
    ),
    Aim(
        "Spark: a micro-batch, dataset to dataset",
        "spark", "stream", "Lode, dataset to dataset", ("micro-batch, s",),
        at_most=1.1, to=("Spark, Parquet files to Parquet files",),
    ),
    Aim(
        "Spark: a graph of 20 small pipelines, against the sum of their jobs",
        "spark", "graph", "Lode, one run of the graph", ("seconds",),
        at_most=1.3, to=("Spark, the jobs one after the other",),
    ),
)  # fmt: skip
