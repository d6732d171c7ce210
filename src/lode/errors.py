"""Every error Lode raises, grouped by what a handler would do about it.

LodeError
├── UsageError (ValueError)          the call is wrong: change the call
│   ├── InvalidPathError             a path or id no store may hold
│   ├── InvalidRangeError            a negative offset or length
│   ├── InvalidMetadataError         metadata that JSON cannot carry
│   ├── InvalidOptionError           an option out of its range or unknown
│   ├── CodecConfiguredError         stream_write on a dataset that has a codec
│   ├── CodecNotStreamableError      stream_write_records with a whole-file codec
│   ├── NilIteratorError             stream_write_records without an iterator
│   ├── PartitioningNotSupportedError
│   ├── ComponentMismatchError       opened with another codec, compressor, layout than written with
│   ├── DatasetExistsError           Dataset.create on a dataset that exists
│   ├── TagExistsError               the tag names another snapshot
│   ├── DatasetsNotModeledError      this layout cannot enumerate datasets
│   ├── RangeReadNotSupportedError   this object cannot be read at random
│   ├── TransactionClosedError       committed or aborted before
│   ├── RowsRemovedError             a read with since, and rows from before it were removed
│   └── MissingDependencyError (ImportError)
├── MissingError (LookupError)       it is not there: write it first, or ask for another
│   ├── NotFoundError                no such object, snapshot or dataset
│   │   └── DatasetDroppedError      it was dropped while it was written
│   ├── NoSnapshotsError             the history is empty
│   ├── SnapshotExpiredError         its files were removed by lode.expire
│   ├── NoManifestsError             objects, but no manifest among them
│   └── RangeMissingError            a volume has no bytes there
├── DataError                        bytes or rows are wrong: repair the data
│   ├── SchemaViolationError         a row does not fit the schema
│   ├── ExpectationFailedError       rows of a pipeline fail a check
│   ├── InvalidFormatError           a file is not what its codec expects
│   ├── ManifestInvalidError         a manifest, pointer or key is damaged, or they contradict each other
│   ├── ChecksumMismatchError        a file's bytes are not the ones that were written
│   └── HistoryForkedError           two heads: damage, or a foreign writer
├── CommitError                      the commit did not finish: see ``landed``
│   ├── SnapshotConflictError        landed=False: merge, then commit again
│   ├── OverlappingBlocksError       landed=False: the bytes are taken
│   ├── CommitUnpublishedError       landed=True: decided; the next writer makes it visible
│   └── CommitUnknownError           landed=None: ask again before writing again
├── StoreError (OSError)             the store failed: try again later
│   ├── PathExistsError              create-only put onto an existing object
│   ├── PermissionDeniedError
│   ├── StoreMissingError            the folder of a local store went away
│   ├── HistoryLostError             a snapshot that was there is not in the history any more
│   └── OutcomeUnknownError          a request that may or may not have taken effect
└── SparkLostError                   the Spark session ended during the work: run again in a new one
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Sequence


class LodeError(Exception):
    """The root of every error this library raises on purpose."""


class UsageError(LodeError, ValueError):
    """The call is wrong; nothing was read or written."""


class InvalidPathError(UsageError):
    """A path or id that no store may hold: empty, absolute, with ``..`` or control characters."""


class InvalidRangeError(UsageError):
    """A byte range with a negative offset or length."""


class InvalidMetadataError(UsageError):
    """Snapshot metadata that JSON cannot carry."""


class InvalidOptionError(UsageError):
    """An option that is unknown or out of its range."""


class CodecConfiguredError(UsageError):
    """``stream_write`` takes raw bytes and the dataset has a codec."""


class CodecNotStreamableError(UsageError):
    """``stream_write_records`` needs a codec that encodes record by record."""


class NilIteratorError(UsageError):
    """``stream_write_records`` was given ``None`` for its records."""


class PartitioningNotSupportedError(UsageError):
    """A single-pass write cannot fan out into partitions."""


class ComponentMismatchError(UsageError):
    """A dataset has another codec, compressor, layout or partition keys than it is opened with."""


class DatasetExistsError(UsageError):
    """``Dataset.create`` found a dataset of that name."""


class TagExistsError(UsageError):
    """A tag of that name exists and names another snapshot."""


class DatasetsNotModeledError(UsageError):
    """The layout has no place that enumerates datasets."""


class RangeReadNotSupportedError(UsageError):
    """The object can only be read from its beginning."""


class TransactionClosedError(UsageError):
    """The transaction or stream was committed or aborted before."""


class RowsRemovedError(UsageError):
    """A read of new rows whose range removes older ones; ``snapshot_id`` names the snapshot that does.

    ``on_removal="ignore"`` or ``"report"`` reads such a range.
    """

    def __init__(self, message: str, *, snapshot_id: str | None = None) -> None:
        super().__init__(message)
        self.snapshot_id = snapshot_id


class MissingDependencyError(UsageError, ImportError):
    """An optional dependency is not installed; ``name`` is its module."""

    def __init__(self, message: str, *, name: str | None = None) -> None:
        super().__init__(message)
        self.name = name


class MissingError(LodeError, LookupError):
    """The requested thing does not exist."""


class NotFoundError(MissingError):
    """No such object, snapshot or dataset."""


class DatasetDroppedError(NotFoundError):
    """The dataset or volume was dropped while this was written; this write did not land."""


class NoSnapshotsError(MissingError):
    """The dataset or volume has no snapshot yet."""


class SnapshotExpiredError(MissingError):
    """The snapshot is older than the oldest one that can be read; its files may be gone."""


class NoManifestsError(MissingError):
    """There are objects here, but none of them is a manifest."""


class RangeMissingError(MissingError):
    """A volume has no bytes for part of the requested range."""

    def __init__(self, message: str, missing: Sequence[tuple[int, int]]) -> None:
        super().__init__(message)
        self.missing = tuple(missing)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.missing)


class DataError(LodeError):
    """Bytes or rows that are not what they should be."""


class SchemaViolationError(DataError):
    """A row that does not fit the schema; names the row and the column."""

    def __init__(self, message: str, *, row: int | None = None, column: str | None = None) -> None:
        super().__init__(message)
        self.row = row
        self.column = column


class ExpectationFailedError(DataError):
    """Rows of a pipeline's output fail a check whose ``on_fail`` is ``fail``; nothing was committed."""

    def __init__(self, message: str, *, expectation: str | None = None, failed: int = 0) -> None:
        super().__init__(message)
        self.expectation = expectation
        self.failed = failed


class InvalidFormatError(DataError):
    """A file whose bytes are not what its codec or compressor expects."""


class ManifestInvalidError(DataError):
    """A manifest, pointer or key that is damaged or contradicts another; ``field`` names a wrong field."""

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class ChecksumMismatchError(DataError):
    """A file's bytes are not the ones its manifest was written for."""


class HistoryForkedError(DataError):
    """History has more than one head: snapshots that are no other's parent; ``heads`` names them."""

    def __init__(self, message: str, heads: Sequence[str]) -> None:
        super().__init__(message)
        self.heads = tuple(heads)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.heads)


class CommitError(LodeError):
    """A commit that did not finish. ``landed``: True, False, or None when that cannot be known."""

    landed: ClassVar[bool | None] = None


class SnapshotConflictError(CommitError):
    """Another writer committed overlapping data first; this write did not land and never will by itself.

    ``transaction`` still holds the staged files: ``error.transaction.commit()`` commits them onto the
    new head without uploading anything again, ``error.transaction.abort()`` removes them.
    """

    landed: ClassVar[bool | None] = False

    def __init__(self, message: str, *, transaction: Any = None) -> None:
        super().__init__(message)
        self.transaction = transaction

    def __reduce__(self) -> tuple[Any, ...]:
        # The staged transaction belongs to the process that staged it.
        return type(self), (str(self),)


class OverlappingBlocksError(CommitError):
    """Two blocks of a volume cover the same bytes; retrying cannot help."""

    landed: ClassVar[bool | None] = False


class CommitUnpublishedError(CommitError):
    """The write has its place in history, but the store failed before it could be shown there.

    Do not write it again: the next commit by any writer publishes it, and so does ``settle()``.
    ``snapshot_id`` names it.
    """

    landed: ClassVar[bool | None] = True

    def __init__(self, message: str, *, snapshot_id: str | None = None) -> None:
        super().__init__(message)
        self.snapshot_id = snapshot_id


class CommitUnknownError(CommitError):
    """The store stopped answering during the swap: snapshot ``snapshot_id`` may or may not have landed."""

    landed: ClassVar[bool | None] = None

    def __init__(self, message: str, *, snapshot_id: str | None = None) -> None:
        super().__init__(message)
        self.snapshot_id = snapshot_id


class StoreError(LodeError, OSError):
    """The store failed for a reason of its own."""


class PathExistsError(StoreError):
    """A create-only write found an object in its place; that object is untouched."""


class PermissionDeniedError(StoreError):
    """The store refused the credentials or the access."""


class StoreMissingError(StoreError):
    """The folder of a local store went away, or another one has taken its place; nothing was written."""


class HistoryLostError(StoreError):
    """The history does not contain snapshot ``snapshot_id``, which this object has read or written.

    The store was emptied, unmounted or replaced, or its pointer was set back. This object refuses to write
    until the history is back. To go on with what is there, open the dataset or volume again.
    """

    def __init__(self, message: str, *, snapshot_id: str | None = None) -> None:
        super().__init__(message)
        self.snapshot_id = snapshot_id


class OutcomeUnknownError(StoreError):
    """A request was sent and its answer lost: it may or may not have taken effect."""


class SparkLostError(LodeError):
    """The Spark session ended during the work: its Java process died, or its context was stopped.

    Batches that were committed stay; a run in a new session goes on after them.
    """
