"""Where we want to be, in one place."""

from __future__ import annotations

from typing import Final

from benchmarks.aim import Aim

_PEERS = ("Delta", "Iceberg", "Lance")
_DEPTHS = ("10", "500", "2,000", "5,000")
_PLAIN_SPARK_READ = "Spark, spark.read.parquet on the same files"
_ONE_SPARK_FILE = "Spark, one file of the same rows"
_BOTH = ("default", "committed")
_MEMORY = "server memory, MB"
_PEAK = "peak over idle, MB"

_DUCKDB = "DuckDB's reader on Lode's files"
_WHY_WRITERS = (
    "A commit creates six inodes (a data file, an intent, a manifest and three directories), the floor two."
)
_WHY_EIGHT = (
    "The client waits for the answers of eight appends, which arrive, are encoded, committed and synced one "
    "after the other. That takes 6 ms at least, which is 0.26 of the ceiling."
)
_WHY_CORES = (
    "The client and the server share two cores. gRPC takes 0.30 s of their time for a million rows, which is "
    "all that the ceiling does. Encoding takes 0.13 s, checking 0.08 s, commits 0.03 s, and threads that "
    "share the interpreter and the caches 0.15 s."
)
_WHY_ENCODING = (
    "Encoding a million rows takes 0.13 s of processor time, twice as much as all that the ceiling does."
)
_WHY_SMALL = (
    "pyarrow opens every file, which takes a task 0.27 ms for each. Plain Spark takes three to four times as "
    "long on the same files."
)
_CROWD = "all together, commits/s"

AIMS: Final = (
    # Group commit.
    Aim(
        "16 writers on S3: commits/s against the floor",
        "commit", "contention-s3-16", "Lode", ("commits/s",),
        at_least=2, to=("floor",), short=True,
        why="Server and clients share two cores, so the number of requests limits both. Lode makes 0.65 of "
        "the floor's for a commit: 1.5x would be the most. After the first two seconds it makes that.",
    ),
    Aim(
        "16 writers on S3: requests for a commit",
        "commit", "contention-s3-16", "Lode", ("requests/commit",),
        at_most=10,
        why="A member that comes too late for a group pays for two rounds, and a process that waits for a "
        "core comes late. Simulated with cores that are never busy, it is 9 to 10.",
    ),
    Aim(
        "16 writers on S3: requests for a commit, against all",
        "commit", "contention-s3-16", "Lode", ("requests/commit",),
        at_most=1, to=("floor", *_PEERS),
    ),
    Aim(
        "16 writers on S3: slowest commit",
        "commit", "contention-s3-16", "Lode", ("slowest, s",),
        at_most=1.5, unit=" s",
        why="These are the first commits: all writers begin at once and do not know of each other.",
    ),
    Aim(
        "16 writers on S3: fairness at half time",
        "commit", "contention-s3-16", "Lode", ("fairness",),
        at_least=0.9,
    ),
    Aim(
        "16 writers on S3: conflicts the caller saw",
        "commit", "contention-s3-16", "Lode", ("conflicts seen",),
        at_most=0,
    ),
    Aim(
        "256 writers, simulated: commits/s",
        "scaling", "crowd", _CROWD, ("256",),
        at_least=150,
    ),
    Aim(
        "1,000 writers, simulated: commits/s",
        "scaling", "crowd", _CROWD, ("1,000",),
        at_least=300,
    ),
    Aim(
        "256 and 1,000 writers, simulated: requests for a commit",
        "scaling", "crowd", "a commit, requests", ("256", "1,000"),
        at_most=12,
    ),
    Aim(
        "16 writers on disk: commits/s against the floor",
        "commit", "contention-disk-16", "Lode", ("commits/s",),
        at_least=0.9, to=("floor",), short=True, why=_WHY_WRITERS,
    ),
    Aim(
        "16 writers on disk: commits/s against Lance",
        "commit", "contention-disk-16", "Lode", ("commits/s",),
        at_least=1, to=("Lance",),
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
        "one writer, after any number of commits: store calls",
        "scaling", "history", "commit, calls", ("10", "500", "5,000"),
        at_most=4,
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
        at_most=1.1, to_column="10",
        why="The folders of the file system have more entries: the floor grows as much.",
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
        why="Go's numbers are of another day. Lode takes three to four times as long as the floor.",
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
        "bulk write from a RecordBatchReader",
        "tables", "write", "Lode, from a RecordBatchReader", ("seconds",),
        at_most=1.05, to=("pyarrow, two files in two threads",),
    ),
    Aim(
        "bulk write by stream_write_records",
        "tables", "write", "Lode, stream_write_records of batches", ("seconds",),
        at_most=1.05, to=("pyarrow, two files in two threads",),
    ),
    Aim(
        "bulk write of a stream: memory",
        "tables", "write", "Lode, from a RecordBatchReader", (_PEAK,),
        at_most=200, unit=" MB",
    ),
    Aim(
        "bulk write by stream_write_records: memory",
        "tables", "write", "Lode, stream_write_records of batches", (_PEAK,),
        at_most=200, unit=" MB",
    ),
    Aim(
        "full scan",
        "tables", "scan", "Lode", ("seconds",),
        at_most=1.1, to=("pyarrow.dataset on Lode's files",),
    ),
    Aim(
        "scan of 1,000 small files by open_dataset",
        "tables", "small", "Lode, open_dataset", ("one column, s", "all columns, s"),
        at_most=1.2, to=(_DUCKDB,),
    ),
    Aim(
        "scan of 1,000 small files",
        "lifecycle", "scan", "Lode", ("one column, s", "all columns, s"),
        at_most=1.2, to=(_DUCKDB,), short=True,
        why="For one column, Lode takes 0.75 of DuckDB's processor time, on one thread instead of two: "
        "pyarrow holds the interpreter's lock while it opens a file, which takes longer than to decode it.",
    ),
    Aim(
        "scan of 1,000 small files after compaction",
        "lifecycle", "scan", "Lode", ("compacted: one column, s", "compacted: all columns, s"),
        at_most=1.1, to=("pyarrow, one file written at once",),
    ),
    Aim(
        "small synced append of 1, 10 and 1,000 rows",
        "lifecycle", "append", "Lode, synced", ("1 row, ms", "10 rows, ms", "1,000 rows, ms"),
        at_most=1, to=("DuckLake",), short=True,
    ),
    Aim(
        "compaction of 2,000 files beside 8 writers: errors",
        "lifecycle", "compaction", "Lode, beside compaction", ("errors",),
        at_most=0,
    ),
    Aim(
        "compaction of 2,000 files beside 8 writers: p50 of an append",
        "lifecycle", "compaction", "Lode, beside compaction", ("append p50, ms",),
        at_most=1.2, to=("Lode, without compaction",),
        why="Eight writers keep both cores busy, and the compaction is a ninth process.",
    ),
    Aim(
        "overwrite and delete of one of 100 partitions: files of others opened",
        "lifecycle", "partition", "Lode, 5,000 files", ("other files opened",),
        at_most=0,
    ),
    Aim(
        "overwrite and delete of one of 100 partitions: store calls with 5,000 files",
        "lifecycle", "partition", "Lode, 5,000 files", ("overwrite, store calls", "delete, store calls"),
        at_most=1, to=("Lode, 100 files",),
        why="One call more at the same place in history: the segment of the 4,096 commits before, to count "
        "what is removed. Between places, up to 15 manifests and three segments of each size.",
    ),
    Aim(
        "delete of 0.1 % and merge of 100,000 keys, 20,000,000 rows",
        "lifecycle", "change", "Lode", ("delete 0.1 %, s", "merge, s"),
        at_most=1, to=("Delta", "Lance"), short=True,
        why="Lode rewrites the files, so that every reader of Parquet sees the rows that are left. Lance "
        "writes which rows are gone, and every reader has to leave them out.",
    ),
    Aim(
        "delete and merge in 20,000,000 rows: memory",
        "lifecycle", "change", "Lode", ("peak over idle, MB",),
        at_most=1000, unit=" MB",
    ),
    Aim(
        "plan of 100 files after 100,000 commits and a compaction",
        "lifecycle", "plan", "Lode, after 100,000 commits", ("open and plan, ms",),
        at_most=2, to=("Lode, 100 files written at once",),
    ),
    Aim(
        "stream_write, xxh3-128",
        "blob", "blob", "Lode stream_write, xxh3-128", ("seconds",),
        at_most=1.1, to=("plain file, xxh3-128",),
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
        "ingest, Arrow, 1,000 rows/append: server memory",
        "ingest", "arrow-1000-1", "Lode", (_MEMORY,),
        at_most=500, unit=" MB",
    ),
    Aim(
        "ingest, Arrow, 1,000 rows/append, 4 connections: rows/s",
        "ingest", "arrow-1000-4", "Lode", _BOTH,
        at_least=30, to=("bqemulator",),
    ),
    Aim(
        "ingest, 8 appends of 1,000 rows in flight, against what the client can send: rows/s",
        "ingest", "arrow-1000-1", "Lode", _BOTH,
        at_least=0.4, to=("ceiling",), why=_WHY_EIGHT,
    ),
    Aim(
        "ingest, 8 appends of 1,000 rows in flight on each of 4 connections, against what the client can "
        "send: rows/s",
        "ingest", "arrow-1000-4", "Lode", _BOTH,
        at_least=0.5, to=("ceiling",), why=_WHY_CORES,
    ),
    Aim(
        "ingest, 128 appends of 1,000 rows in flight, against what the client can send: rows/s",
        "ingest", "in-flight", "Lode", ("1 connection, 128 in flight",),
        at_least=0.4, to=("ceiling",), why=_WHY_CORES,
    ),
    Aim(
        "ingest, 128 appends of 1,000 rows in flight on each of 4 connections, against what the client can "
        "send: rows/s",
        "ingest", "in-flight", "Lode", ("4 connections, 128 in flight",),
        at_least=0.5, to=("ceiling",), why=_WHY_CORES,
    ),
    Aim(
        "ingest, 8 appends of 50,000 rows in flight, against what the client can send: rows/s",
        "ingest", "arrow-50000-1", "Lode", _BOTH,
        at_least=0.4, to=("ceiling",), why=_WHY_ENCODING,
    ),
    Aim(
        "ingest, one append at a time, default: p50",
        "ingest", "lone", "Lode, default", ("p50, ms",),
        at_most=4, unit=" ms",
        why="An append needs eight syncs, six of them in turn, and two thread switches. "
        "Rounds vary between 4.0 and 6.2 ms.",
    ),
    Aim(
        "ingest, one append at a time, committed: p50",
        "ingest", "lone", "Lode, committed", ("p50, ms",),
        at_most=4, unit=" ms",
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
        at_least=20, to=("bqemulator",),
    ),
    Aim(
        "ingest, Protobuf, 1,000 rows/append, pending: rows/s",
        "ingest", "protobuf-1000-1", "Lode", ("pending",),
        at_least=15, to=("bqemulator",),
    ),
    Aim(
        "SQL over 1,000,000 rows: filter, group by",
        "ingest", "sql", "Lode", ("filter and aggregate, s", "group by, s"),
        at_most=1, to=("bqemulator",),
        why="bqemulator has its tables in DuckDB's memory; Lode reads Parquet files, in another process.",
    ),
    Aim(
        "load jobs of 1 GB: Parquet, CSV",
        "ingest", "load", "Lode", ("Parquet, s", "CSV, s"),
        at_most=1, to=("bqemulator",),
    ),
    Aim(
        "ingest, one append at a time while 4 clients query: p99",
        "ingest", "beside", "Lode", ("p99 beside, ms",),
        at_most=100, unit=" ms",
    ),
    Aim(
        "ingest: idle calls held open",
        "ingest", "idle", "Lode", ("idle calls answered",),
        at_least=1000,
    ),
    Aim(
        "Spark: lode.spark.write",
        "spark", "write", "Lode, lode.spark.write", ("seconds",),
        at_most=0.8, to=("Spark, df.write.parquet",),
    ),
    Aim(
        'Spark: df.write.format("lode")',
        "spark", "write", 'Lode, df.write.format("lode")', ("seconds",),
        at_most=1, to=("Spark, df.write.parquet",),
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
        'Spark: spark.read.format("lode")',
        "spark", "read", 'Lode, spark.read.format("lode")', ("seconds",),
        at_most=1.2, to=(_PLAIN_SPARK_READ,),
        why="Spark takes the rows of a Python source out of Arrow one by one. lode.spark.read avoids that.",
    ),
    Aim(
        "Spark: a micro-batch, dataset to dataset",
        "spark", "stream", "Lode, dataset to dataset", ("micro-batch, s",),
        at_most=1.1, to=("Spark, Parquet files to Parquet files",),
    ),
    Aim(
        "Spark: 500 small files against one file of the same rows",
        "spark", "small-500", "Lode, lode.spark.read of the small files", ("seconds",),
        at_most=3, to=(_ONE_SPARK_FILE,), why=_WHY_SMALL,
    ),
    Aim(
        "Spark: 5,000 small files against one file of the same rows",
        "spark", "small-5000", "Lode, lode.spark.read of the small files", ("seconds",),
        at_most=3, to=(_ONE_SPARK_FILE,), why=_WHY_SMALL,
    ),
    Aim(
        "Spark: 5,000 small files after compaction",
        "spark", "small-5000", "Lode, lode.spark.read after compaction", ("seconds",),
        at_most=1.2, to=(_ONE_SPARK_FILE,),
    ),
    Aim(
        "Spark: 500 small files after compaction",
        "spark", "small-500", "Lode, lode.spark.read after compaction", ("seconds",),
        at_most=1.2, to=(_ONE_SPARK_FILE,),
    ),
    Aim(
        "Spark: 5,000 small files against plain Spark on their folder",
        "spark", "small-5000", "Lode, lode.spark.read of the small files", ("seconds",),
        at_most=1.2, to=("floor: Spark, spark.read.parquet on the folder of the small files",),
        why=_WHY_SMALL,
    ),
    Aim(
        'Spark: spark.read.format("lode") with columns named, against the floor of a Python source',
        "spark", "read-two", "Lode, format lode with columns named", ("seconds",),
        at_most=1.2, to=("floor: a Python source that only reads the files",),
    ),
    Aim(
        "Spark: a graph of 20 small pipelines",
        "spark", "graph", "Lode, one run of the graph", ("seconds",),
        at_most=1.3, to=("Spark, the jobs one after the other",),
    ),
)  # fmt: skip
