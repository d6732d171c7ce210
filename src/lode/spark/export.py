"""Export a dataset as plain files of another format, through Spark's own writers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from lode.errors import InvalidOptionError, NotFoundError
from lode.format.manifest import FileStats
from lode.lineage.position import ends, plan_between
from lode.lineage.record import Input, input_of
from lode.read.state import Cut
from lode.spark.dataset_ref import dataset_ref
from lode.spark.options import Options, store_options
from lode.spark.read import frame_of
from lode.spark.schema import scan_schema, spark_schema
from lode.spark.session import is_connect
from lode.spark.spread import reachable
from lode.store.open import open_store
from lode.upkeep.share import ALL, fits, shares_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from lode.dataset import Dataset
    from lode.format.manifest import FileRef, Manifest
    from lode.lineage.position import Position
    from lode.read.scan import Scan
    from lode.reads import SnapshotRef
    from lode.spark.dataset_ref import DatasetRef, Where

FORMATS: Final = ("parquet", "json", "csv", "orc")
# Spark's readers pass over names that begin with an underscore.
RECEIPT: Final = "_lode.json"
# Spark holds the status of every file of a job in the memory of its driver.
_FILES_PER_JOB: Final = 20_000


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

    A Spark job exports at most 20,000 files, and the driver holds the names of at most about a million. A
    driver that dies leaves the files of finished jobs, without a receipt.

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
    dataset = reachable(place.open())
    after, up_to = ends(dataset, since, as_of)
    source = input_of(dataset, after, up_to)
    folder: _Folder = _StoreFolder(path, place) if is_connect(spark) else _HadoopFolder(spark, path)
    known = folder.receipt()
    if known is not None and (known.source, known.format) == (source, file_format):
        return Export(path, known, replayed=True)
    if folder.holds_something() and not overwrite:
        raise InvalidOptionError(
            f"{path} holds {folder.description()}: choose another, or say overwrite=True"
        )
    given = Options(place.given)
    struct: StructType | None = None
    mode = "overwrite"
    rows = 0
    for scan in _plans(dataset, after, up_to):
        struct = struct or spark_schema(scan_schema(scan, merge=given.flag("mergeSchema")))
        # Without any file there is one job too, which makes the folder.
        for manifests in _batches(scan.manifests) if scan.paths or mode == "append" else ([],):
            frame = frame_of(spark, scan.of(manifests), struct, given)
            writer = frame.write.format(file_format).options(**(options or {})).mode(mode)
            (writer.partitionBy(*partition_by) if partition_by else writer).save(path)
            mode = "append"
        rows += scan.row_count
    receipt = Receipt(source, file_format, rows)
    folder.leave(receipt)
    return Export(path, receipt, replayed=False)


def _plans(dataset: Dataset, after: Position, up_to: Position) -> Iterator[Scan]:
    """The files to export: all at once, or in shares if they are too many to hold."""
    found = dataset._changes.handle.find()
    head = found.chain.require(up_to.snapshot)
    if found.definitions.at(head).columns is None:
        # All files together say which columns there are.
        yield plan_between(dataset, after, up_to)
        return
    shares = shares_of(found.chain)
    if len(shares) > 1 and not after.snapshot and fits(found, head):
        shares = [ALL]
    for share in shares:
        cut = Cut(share.has if len(shares) > 1 else None, _without_statistics)
        yield plan_between(dataset, after, up_to, cut=cut)


def _without_statistics(file: FileRef) -> FileRef:
    stats = None if file.stats is None else FileStats(file.stats.row_count, ())
    return msgspec.structs.replace(file, stats=stats)


def _batches(manifests: Sequence[Manifest]) -> Iterator[list[Manifest]]:
    """The files of some snapshots, in their order, so many at a time as one job exports."""
    batch: list[Manifest] = []
    room = _FILES_PER_JOB
    for manifest in manifests:
        files = manifest.files
        while files:
            batch.append(msgspec.structs.replace(manifest, files=files[:room]))
            files, room = files[room:], room - len(batch[-1].files)
            if not room:
                yield batch
                batch, room = [], _FILES_PER_JOB
    if batch:
        yield batch


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
