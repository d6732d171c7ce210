"""Export a dataset as plain files of another format, through Spark's own writers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from lode.errors import InvalidOptionError, NotFoundError
from lode.lineage.position import ends, plan_between
from lode.lineage.record import Input, input_of
from lode.spark.dataset_ref import dataset_ref
from lode.spark.options import Options, store_options
from lode.spark.session import is_connect
from lode.store.open import open_store

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession

    from lode.reads import SnapshotRef
    from lode.spark.dataset_ref import DatasetRef, Where

FORMATS: Final = ("parquet", "json", "csv", "orc")
# Spark's readers pass over names that begin with an underscore.
RECEIPT: Final = "_lode.json"


class Receipt(msgspec.Struct, frozen=True):
    """The content of an exported folder: dataset, snapshots, rows and format."""

    source: Input
    format: str
    rows: int


@dataclass(frozen=True, slots=True)
class Export:
    """A finished export; ``replayed`` if it had been made before."""

    path: str
    receipt: Receipt
    replayed: bool


def export(
    spark: SparkSession,
    where: Where,
    path: str,
    *,
    file_format: str = "parquet",
    since: SnapshotRef | None = None,
    as_of: SnapshotRef | None = None,
    partition_by: Sequence[str] = (),
    overwrite: bool = False,
    options: Mapping[str, str] | None = None,
) -> Export:
    """Write a range of history as files into a folder of their own.

    A receipt in the folder says what it holds. The same export again does nothing; another one, or files that
    were not exported, are in the way unless ``overwrite`` is said.

    Args:
        spark: The session.
        where: The dataset.
        path: The folder, as Spark names it (``s3a://…``, ``file://…``, a directory). With Spark Connect, this
            process keeps the receipt there too, in a bucket with the options of the dataset's store.
        file_format: parquet, json, csv or orc.
        since: Leave out this snapshot and everything before it.
        as_of: Up to this snapshot, named as in ``Dataset.snapshot``; None is the newest.
        partition_by: Columns to make folders of.
        overwrite: Replace what is there.
        options: Of Spark's writer, such as ``{"header": "true"}``.
    """
    if file_format not in FORMATS:
        raise InvalidOptionError(f"file_format is {file_format!r}: it is one of {', '.join(FORMATS)}")
    place = dataset_ref(where)
    dataset = place.open()
    after, up_to = ends(dataset, since, as_of)
    rows = plan_between(dataset, after, up_to).row_count
    receipt = Receipt(input_of(dataset, after, up_to), file_format, rows)
    folder: _Folder = _StoreFolder(path, place) if is_connect(spark) else _HadoopFolder(spark, path)
    if folder.receipt() == receipt:
        return Export(path, receipt, replayed=True)
    if folder.holds_something() and not overwrite:
        raise InvalidOptionError(
            f"{path} holds {folder.description()}: choose another, or say overwrite=True"
        )
    frame = place.read(spark, since=after.snapshot or None, as_of=up_to.snapshot)
    writer = frame.write.format(file_format).options(**(options or {})).mode("overwrite")
    (writer.partitionBy(*partition_by) if partition_by else writer).save(path)
    folder.leave(receipt)
    return Export(path, receipt, replayed=False)


class _Folder(ABC):
    """A folder with exported files."""

    @abstractmethod
    def holds_something(self) -> bool: ...

    @abstractmethod
    def read(self) -> str | bytes | None:
        """The content of the receipt; None without one."""

    @abstractmethod
    def write(self, receipt: bytes) -> None: ...

    def receipt(self) -> Receipt | None:
        found = self.read()
        try:
            return None if found is None else msgspec.json.decode(found, type=Receipt)
        except msgspec.MsgspecError:
            return None

    def description(self) -> str:
        found = self.receipt()
        if found is None:
            return "files that are no finished export"
        return f"an export of {found.source.dataset!r} up to {found.source.up_to.snapshot} as {found.format}"

    def leave(self, receipt: Receipt) -> None:
        self.write(msgspec.json.format(msgspec.json.encode(receipt)))


class _StoreFolder(_Folder):
    """A folder that this process opens itself: a client of Spark Connect has none of Spark's file systems."""

    def __init__(self, path: str, place: DatasetRef) -> None:
        shared = path.partition("://")[0] in ("s3", "s3a", "gs", "gcs", "az", "abfss")
        self._store = open_store(path, **(store_options(Options(place.given)) if shared else {}))

    def holds_something(self) -> bool:
        return next(iter(self._store.list()), None) is not None

    def read(self) -> bytes | None:
        try:
            return self._store.get(RECEIPT)
        except NotFoundError:
            return None

    def write(self, receipt: bytes) -> None:
        self._store.put(RECEIPT, receipt)


class _HadoopFolder(_Folder):
    """A folder wherever Spark can write, through the file systems Spark itself uses."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        context: Any = spark.sparkContext
        self._jvm = context._jvm
        self._path = self._jvm.org.apache.hadoop.fs.Path(path)
        self._files = self._path.getFileSystem(context._jsc.hadoopConfiguration())
        self._receipt = self._jvm.org.apache.hadoop.fs.Path(self._path, RECEIPT)

    def holds_something(self) -> bool:
        return bool(self._files.exists(self._path)) and len(self._files.listStatus(self._path)) > 0

    def read(self) -> str | None:
        if not self._files.exists(self._receipt):
            return None
        stream = self._files.open(self._receipt)
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, receipt: bytes) -> None:
        stream = self._files.create(self._receipt, True)
        try:
            stream.write(bytearray(receipt))
        finally:
            stream.close()
