"""Lode: immutable snapshots, linear history and safe concurrent commits on plain object storage."""

from lode.codec.arrow import ArrowIPC
from lode.codec.jsonl import JSONL
from lode.codec.parquet import Parquet
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
    DatasetExistsError,
    DatasetsNotModeledError,
    HistoryForkedError,
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
    SchemaViolationError,
    SnapshotConflictError,
    StoreError,
    TransactionClosedError,
    UsageError,
)
from lode.format.manifest import ColumnStats, FileRef, FileStats, Manifest
from lode.format.paths import DefaultLayout, FlatLayout, HiveLayout
from lode.format.volume import BlockRef, VolumeManifest
from lode.reader import DatasetReader, ManifestRef
from lode.snapshot import CommitReport, Snapshot, VolumeSnapshot
from lode.store.open import open_store
from lode.store.protocol import Store, SupportsCompareAndSwap
from lode.upkeep.copy import CopyReport, copy
from lode.upkeep.sweep import Leftover, Sweep, sweep
from lode.upkeep.verify import Problem, Verification, verify
from lode.volume import Volume
from lode.write.retry import Retry
from lode.write.stage import Staged, Stager
from lode.write.stream import StreamWriter
from lode.write.transaction import Transaction

__version__ = "0.1.0"

__all__ = [
    "JSONL",
    "ArrowIPC",
    "BlockRef",
    "ChecksumMismatchError",
    "CodecConfiguredError",
    "CodecNotStreamableError",
    "Column",
    "ColumnStats",
    "CommitError",
    "CommitReport",
    "CommitUnknownError",
    "CommitUnpublishedError",
    "ComponentMismatchError",
    "CopyReport",
    "DataError",
    "Dataset",
    "DatasetExistsError",
    "DatasetReader",
    "DatasetsNotModeledError",
    "DefaultLayout",
    "Definition",
    "FileRef",
    "FileStats",
    "FlatLayout",
    "HistoryForkedError",
    "HiveLayout",
    "InvalidFormatError",
    "InvalidMetadataError",
    "InvalidOptionError",
    "InvalidPathError",
    "InvalidRangeError",
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
    "OutcomeUnknownError",
    "OverlappingBlocksError",
    "Parquet",
    "PartitioningNotSupportedError",
    "PathExistsError",
    "PermissionDeniedError",
    "Problem",
    "RangeMissingError",
    "RangeReadNotSupportedError",
    "Retry",
    "SchemaViolationError",
    "Snapshot",
    "SnapshotConflictError",
    "Staged",
    "Stager",
    "Store",
    "StoreError",
    "StreamWriter",
    "SupportsCompareAndSwap",
    "Sweep",
    "Timestamped",
    "Transaction",
    "TransactionClosedError",
    "UsageError",
    "Verification",
    "Volume",
    "VolumeManifest",
    "VolumeSnapshot",
    "__version__",
    "copy",
    "open_dataset",
    "open_store",
    "open_volume",
    "sweep",
    "verify",
]
