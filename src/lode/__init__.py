"""Lode: immutable snapshots, linear history and safe concurrent commits on plain object storage."""

from lode.change.base import OnChangeConflict
from lode.change.drop import DropReport
from lode.change.merge import WhenMatched, WhenNotMatched
from lode.change.result import Change
from lode.codec.arrow import ArrowIPC
from lode.codec.checksum import Checksum
from lode.codec.components import Components
from lode.codec.compress import Compressor
from lode.codec.jsonl import JSONL
from lode.codec.parquet import Parquet
from lode.codec.protocol import Chunk, Codec
from lode.codec.schema import SchemaSpec, TypeSpec
from lode.codec.timestamps import Timestamped
from lode.dataset import Dataset
from lode.definition import Column, Definition
from lode.discover import open_dataset, open_volume
from lode.errors import (
    ChecksumMismatchError,
    CodecConfiguredError,
    CodecNotStreamableError,
    CommitError,
    CommitUnknownError,
    CommitUnpublishedError,
    ComponentMismatchError,
    DataError,
    DatasetDroppedError,
    DatasetExistsError,
    DatasetsNotModeledError,
    ExpectationFailedError,
    HistoryForkedError,
    HistoryLostError,
    InvalidFormatError,
    InvalidMetadataError,
    InvalidOptionError,
    InvalidPathError,
    InvalidRangeError,
    LodeError,
    ManifestInvalidError,
    MissingDependencyError,
    MissingError,
    NilIteratorError,
    NoManifestsError,
    NoSnapshotsError,
    NotFoundError,
    OutcomeUnknownError,
    OverlappingBlocksError,
    PartitioningNotSupportedError,
    PathExistsError,
    PermissionDeniedError,
    RangeMissingError,
    RangeReadNotSupportedError,
    RowsRemovedError,
    SchemaViolationError,
    SnapshotConflictError,
    SnapshotExpiredError,
    SparkLostError,
    StoreError,
    StoreMissingError,
    TagExistsError,
    TransactionClosedError,
    UsageError,
)
from lode.evolution import Evolution
from lode.format.manifest import ColumnStats, FileRef, FileStats, GroupPlace, Manifest, Removed, Removes
from lode.format.paths import DefaultLayout, FlatLayout, HiveLayout, Layout
from lode.format.volume import BlockRef, VolumeManifest
from lode.read.incremental import OnRemoval
from lode.read.scan import Scan
from lode.read.tags import Tag
from lode.reader import DatasetReader, ManifestRef
from lode.reads import ScanOptions, SnapshotRef
from lode.runtime import Runtime
from lode.snapshot import CommitReport, Snapshot, VolumeSnapshot
from lode.store.open import open_store
from lode.store.protocol import ObjectInfo, ObjectReader, ObjectWriter, Store, SupportsCompareAndSwap
from lode.upkeep.copy import CopyReport, copy
from lode.upkeep.expire import ExpireReport, expire
from lode.upkeep.rename import rename
from lode.upkeep.sweep import Leftover, Sweep, sweep
from lode.upkeep.verify import Problem, Verification, verify
from lode.volume import Volume, VolumeSnapshotRef
from lode.write.blocks import Readable
from lode.write.retry import OnConflict, Retry
from lode.write.stage import Staged, Stager
from lode.write.stream import StreamWriter
from lode.write.transaction import Transaction
from lode.writes import IdempotencyKey

__version__ = "0.1.0"

__all__ = [
    "JSONL",
    "ArrowIPC",
    "BlockRef",
    "Change",
    "Checksum",
    "ChecksumMismatchError",
    "Chunk",
    "Codec",
    "CodecConfiguredError",
    "CodecNotStreamableError",
    "Column",
    "ColumnStats",
    "CommitError",
    "CommitReport",
    "CommitUnknownError",
    "CommitUnpublishedError",
    "ComponentMismatchError",
    "Components",
    "Compressor",
    "CopyReport",
    "DataError",
    "Dataset",
    "DatasetDroppedError",
    "DatasetExistsError",
    "DatasetReader",
    "DatasetsNotModeledError",
    "DefaultLayout",
    "Definition",
    "DropReport",
    "Evolution",
    "ExpectationFailedError",
    "ExpireReport",
    "FileRef",
    "FileStats",
    "FlatLayout",
    "GroupPlace",
    "HistoryForkedError",
    "HistoryLostError",
    "HiveLayout",
    "IdempotencyKey",
    "InvalidFormatError",
    "InvalidMetadataError",
    "InvalidOptionError",
    "InvalidPathError",
    "InvalidRangeError",
    "Layout",
    "Leftover",
    "LodeError",
    "Manifest",
    "ManifestInvalidError",
    "ManifestRef",
    "MissingDependencyError",
    "MissingError",
    "NilIteratorError",
    "NoManifestsError",
    "NoSnapshotsError",
    "NotFoundError",
    "ObjectInfo",
    "ObjectReader",
    "ObjectWriter",
    "OnChangeConflict",
    "OnConflict",
    "OnRemoval",
    "OutcomeUnknownError",
    "OverlappingBlocksError",
    "Parquet",
    "PartitioningNotSupportedError",
    "PathExistsError",
    "PermissionDeniedError",
    "Problem",
    "RangeMissingError",
    "RangeReadNotSupportedError",
    "Readable",
    "Removed",
    "Removes",
    "Retry",
    "RowsRemovedError",
    "Runtime",
    "Scan",
    "ScanOptions",
    "SchemaSpec",
    "SchemaViolationError",
    "Snapshot",
    "SnapshotConflictError",
    "SnapshotExpiredError",
    "SnapshotRef",
    "SparkLostError",
    "Staged",
    "Stager",
    "Store",
    "StoreError",
    "StoreMissingError",
    "StreamWriter",
    "SupportsCompareAndSwap",
    "Sweep",
    "Tag",
    "TagExistsError",
    "Timestamped",
    "Transaction",
    "TransactionClosedError",
    "TypeSpec",
    "UsageError",
    "Verification",
    "Volume",
    "VolumeManifest",
    "VolumeSnapshot",
    "VolumeSnapshotRef",
    "WhenMatched",
    "WhenNotMatched",
    "__version__",
    "copy",
    "expire",
    "open_dataset",
    "open_store",
    "open_volume",
    "rename",
    "sweep",
    "verify",
]
