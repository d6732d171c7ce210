"""The one place where Spark opens files of a store. What leaves here can be read, and not written through.

Spark lets an INSERT write through a frame whose plan is a relation and nothing else, and through a view of
it: an INSERT OVERWRITE of a frame of one file deletes the file. With a projection above the relation Spark
refuses it. The optimizer removes the projection, so reads are planned as they are without it.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import PySparkException
from pyspark.sql.types import StructType

from lode.spark.session import is_connect, setting_before, temporary_setting
from lode.store.protocol import SupportsLocalPath

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager

    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

    from lode.read.scan import Scan
    from lode.store.protocol import Store

# What Hadoop calls the schemes of our stores; Azure's needs the account, which a URL of ours has not.
_HADOOP_SCHEMES: Final = {"s3": "s3a", "gs": "gs"}
_LISTING_TASKS: Final = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
# Spark's own default.
_SPARK_LISTING_TASKS: Final = "10000"
_PATHS_PER_TASK: Final = 100
_MIN_LISTING_TASKS: Final = 8
_MAX_LISTING_TASKS: Final = 1000


def native_frame(
    spark: SparkSession, store: Store, files: Sequence[str], schema: StructType, *, trust_statistics: bool
) -> DataFrame:
    """The rows of Parquet files, which Spark's own reader reads.

    Args:
        spark: The session.
        store: Spark can open its files.
        files: Their paths in the store.
        schema: The columns.
        trust_statistics: Whether Spark may leave out row groups by the ranges that the files have.
    """
    if not files:
        return spark.createDataFrame([], schema)
    trust = str(trust_statistics).lower()
    with _few_listing_tasks(spark, len(files)):
        frame = _read_only(
            _reader(spark, schema)
            # A file's ranges leave NaN out, and Spark, to which NaN is the greatest number, would miss it.
            .option("parquet.filter.stats.enabled", trust)
            .option("parquet.filter.columnindex.enabled", trust)
            .parquet(*(_hadoop_path(store, file) for file in files))
        )
        if is_connect(spark):
            _ = frame.schema  # the server lists them when it is first asked for something
    return frame


def python_frame(spark: SparkSession, options: Mapping[str, str], schema: StructType) -> DataFrame:
    """The rows that ``format("lode")`` reads with these options."""
    return _read_only(spark.read.format("lode").options(**options).schema(schema).load())


def _read_only(frame: DataFrame) -> DataFrame:
    return frame.select("*")


def _few_listing_tasks(spark: SparkSession, paths: int) -> AbstractContextManager[None]:
    """Keep Spark from listing each path in a task of its own, which costs more than a small file."""
    if paths <= _MIN_LISTING_TASKS or setting_before(spark, _LISTING_TASKS) != _SPARK_LISTING_TASKS:
        return nullcontext()
    tasks = min(max(paths // _PATHS_PER_TASK, _MIN_LISTING_TASKS), _MAX_LISTING_TASKS)
    return temporary_setting(spark, _LISTING_TASKS, str(tasks))


def _reader(spark: SparkSession, schema: StructType) -> DataFrameReader:
    return (
        spark.read.schema(schema)
        # Partition columns are in the files. In paths a null, an empty text and a day are not what they were.
        .option("recursiveFileLookup", "true")
        # These are names, not patterns.
        .option("__globPaths__", "false")
        # Days before 1582 are written as they are.
        .option("datetimeRebaseMode", "CORRECTED")
        .option("int96RebaseMode", "CORRECTED")
    )


def without_hadoop(spark: SparkSession, scan: Scan) -> str | None:
    """Why Spark cannot open the files of a scan; None if it can, or has none to open."""
    store = scan.store
    if isinstance(store, SupportsLocalPath):
        return None
    missing = f"its Hadoop has no file system for {store.url}"
    scheme = _HADOOP_SCHEMES.get(store.url.partition("://")[0])
    if scheme is None:
        return missing
    if not is_connect(spark):
        return None if _hadoop_has(spark, scheme) else missing
    # Only the server knows, and it tells when it looks at a file.
    paths = scan.paths
    if not paths:
        return None
    try:
        _ = _reader(spark, StructType()).parquet(_hadoop_path(store, paths[0])).schema
    except PySparkException as error:
        return f"{missing}, or cannot open it: {str(error).splitlines()[0]}"
    return None


def _hadoop_has(spark: SparkSession, scheme: str) -> bool:
    from py4j.protocol import Py4JError  # type: ignore[import-untyped, unused-ignore]

    context: Any = spark.sparkContext
    try:
        hadoop = context._jvm.org.apache.hadoop.fs.FileSystem
        hadoop.getFileSystemClass(scheme, context._jsc.hadoopConfiguration())
    except Py4JError:
        return False
    return True


def _hadoop_path(store: Store, path: str) -> str:
    if isinstance(store, SupportsLocalPath):
        return f"file://{store.local_path(path)}"
    scheme, _, rest = store.url.partition("://")
    return f"{_HADOOP_SCHEMES[scheme]}://{rest}/{path}"
