"""The dataset: a named, linear history of immutable snapshots on a store.

The way of a write: ``Dataset.write`` → ``write/stage.py`` (data files) → ``write/transaction.py`` →
``write/commit.py`` (intent, swap, publish). The way of a read: ``read/resolve.py`` (the head) →
``read/history.py`` (the chain) → ``read/scan.py`` (the files).
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from lode.codec.components import Components, components_of
from lode.codec.protocol import StreamingCodec
from lode.errors import (
    CodecConfiguredError,
    CodecNotStreamableError,
    InvalidOptionError,
    NilIteratorError,
    NoSnapshotsError,
    NotFoundError,
    PartitioningNotSupportedError,
)
from lode.format.ids import SnapshotIds, check_id, check_writer, is_utf8
from lode.format.manifest import Manifest, check_metadata, decode_manifest
from lode.format.paths import DefaultLayout, Layout
from lode.read.history import History
from lode.read.resolve import Chain, Head
from lode.read.scan import Scan, read_files
from lode.runtime import REAL, Runtime
from lode.snapshot import Snapshot
from lode.store.open import open_store
from lode.store.protocol import Store, SupportsCompareAndSwap
from lode.write.commit import CommitReport, Committer
from lode.write.draft import DatasetDraft
from lode.write.rebase import partitions_of
from lode.write.retry import Retry
from lode.write.segments import is_boundary, write_segments
from lode.write.stage import Stager
from lode.write.stream import StreamWriter
from lode.write.transaction import Transaction

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa
    import pyarrow.compute as pc

    from lode.codec.checksum import Checksum
    from lode.codec.compress import Compressor
    from lode.codec.protocol import Codec

SnapshotLike: TypeAlias = Snapshot | str
Key: TypeAlias = str | tuple[str, str]


class Dataset:
    """Snapshots of one dataset on one store. Cheap to make; nothing is read before it is needed.

    Args:
        id: The dataset's name.
        store: A URL (``s3://…``, ``gs://…``, ``az://…``, ``file://…``, ``memory://``), a path, or a store.
        codec: How records become files: ``lode.JSONL()``, ``lode.Parquet(schema)``, ``lode.ArrowIPC()``, a
            codec's name, or one of your own. None stores each write as one blob of bytes.
        layout: Where files lie; ``lode.HiveLayout("day")`` partitions them.
        compressor: ``"noop"``, ``"gzip"``, ``"zstd"`` or a compressor, applied to whole files.
        checksum: ``"md5"``, ``"sha256"``, ``"xxh3-128"`` or a checksum; None records none.
        retry: Whether a conflicting commit is tried again on top of the other writer's.
        timestamp_column: The column whose range snapshots record; without it, records that have a
            ``timestamp()`` method are asked. Never guessed.
        observer: Called with (snapshot id, report) after each commit.
        writer: Who writes, told by each snapshot; the environment's ``LODE_WRITER`` if not given.
        runtime: Clock, chance and threads, for simulations.
    """

    def __init__(
        self,
        id: str,
        store: str | os.PathLike[str] | Store,
        *,
        codec: Codec | str | None = None,
        layout: Layout | None = None,
        compressor: Compressor | str = "noop",
        checksum: Checksum | str | None = None,
        retry: Retry | None = None,
        timestamp_column: str | None = None,
        observer: Callable[[str, CommitReport], None] | None = None,
        writer: str | None = None,
        runtime: Runtime = REAL,
    ) -> None:
        self._id = check_id(id, kind="dataset")
        self._layout: Layout = layout if layout is not None else DefaultLayout()
        self._components = components_of(codec, compressor, checksum)
        if self._layout.keys and self._components.codec is None:
            raise InvalidOptionError(
                f"dataset {id!r} is partitioned by {', '.join(self._layout.keys)}: it needs a codec"
            )
        self._store = open_store(store)
        self._timestamp_column = timestamp_column
        self._writer = check_writer(writer)
        self._runtime = runtime
        self._ids = SnapshotIds(runtime.now_ns, runtime.random_bits)
        self._chain: Chain[Manifest] = Chain(
            self._store, self._layout.chain(id), decode_manifest, self._copies, f"dataset {id!r}", id
        )
        self._history = History(self._chain, runtime)
        self._committer = Committer(
            self._chain, runtime, retry or Retry(), observer, self._keep_history_short
        )

    @property
    def id(self) -> str:
        return self._id

    @property
    def store(self) -> Store:
        return self._store

    @property
    def layout(self) -> Layout:
        return self._layout

    @property
    def components(self) -> Components:
        """The codec, compressor and checksum its files pass through."""
        return self._components

    @property
    def chain(self) -> Chain[Manifest]:
        """The history as objects on the store, for tools such as verify and sweep."""
        return self._chain

    @property
    def safe_for_many_writers(self) -> bool:
        """Whether the store can compare and swap; without that, one writer at a time is your promise."""
        return isinstance(self._store, SupportsCompareAndSwap)

    # -- writing -------------------------------------------------------------------------------

    def write(
        self, data: Any, metadata: dict[str, Any] | None = None, *, idempotency_key: Key | None = None
    ) -> Snapshot:
        """Write ``data`` as one new snapshot.

        Args:
            data: Bytes without a codec. With one: dicts, dataclasses, msgspec structs, Arrow tables,
                batches or readers, anything that offers itself as Arrow (pandas, polars, duckdb), or a
                Spark DataFrame.
            metadata: Any JSON object; None means an empty one.
            idempotency_key: A key, or (writer, key). A second write under it returns the first's snapshot.
        """
        if type(data).__module__.startswith("pyspark."):
            from lode.spark.write import write  # its tasks stage it: it is never brought to this process

            return write(self, data, metadata, idempotency_key=idempotency_key)
        with self.transaction(metadata, idempotency_key=idempotency_key) as transaction:
            if transaction.replayed is not None:
                return transaction.replayed
            transaction.add(transaction.stager.stage_named(data, ""))
            return transaction.commit()

    def stream_write(
        self, metadata: dict[str, Any] | None = None, *, idempotency_key: Key | None = None
    ) -> StreamWriter:
        """Open one blob to be written piece by piece; ``commit()`` makes it a snapshot."""
        if self._components.codec is not None:
            raise CodecConfiguredError(
                f"dataset {self.id!r} has the codec {self._components.codec.name!r} and stream_write takes "
                "raw bytes: use write() or stream_write_records()"
            )
        return StreamWriter(self.transaction(metadata, idempotency_key=idempotency_key))

    def stream_write_records(
        self,
        records: Iterable[Any],
        metadata: dict[str, Any] | None = None,
        *,
        idempotency_key: Key | None = None,
    ) -> Snapshot:
        """Write records as they are pulled from an iterator, in memory that does not grow with them."""
        if records is None:
            raise NilIteratorError("stream_write_records needs an iterator of records, got None")
        if not isinstance(self._components.codec, StreamingCodec):
            name = self._components.codec.name if self._components.codec else None
            raise CodecNotStreamableError(
                f"dataset {self.id!r} has the codec {name!r}, which cannot encode record by record: "
                "use write(), or lode.JSONL(), lode.Parquet(schema) or lode.ArrowIPC()"
            )
        if self._layout.keys:
            raise PartitioningNotSupportedError(
                f"dataset {self.id!r} is partitioned by {', '.join(self._layout.keys)}, which a "
                "single pass into one file cannot be: use transaction().write_records()"
            )
        return self.write(records, metadata, idempotency_key=idempotency_key)

    def transaction(
        self,
        metadata: dict[str, Any] | None = None,
        *,
        idempotency_key: Key | None = None,
        snapshot_id: str | None = None,
    ) -> Transaction:
        """Begin a snapshot that threads, processes and tasks stage files for; one commit makes it visible.

        Args:
            metadata: Any JSON object; None means an empty one.
            idempotency_key: A key, or (writer, key). What was committed under it is in ``replayed``.
            snapshot_id: The id under which a ``stager`` elsewhere has staged; a new one if not given.
        """
        clean = check_metadata(metadata)
        pair = _pair(idempotency_key)
        stager = self.stager(snapshot_id)
        base = self._committer.base()
        found = self._committer.find_key(pair) if pair else None
        draft = DatasetDraft(
            stager.snapshot_id,
            base,
            pair,
            writer=self._writer,
            stager=stager,
            metadata=clean,
            now_ns=self._runtime.now_ns,
        )
        return Transaction(self._committer, draft, found)

    def stager(self, snapshot_id: str | None = None) -> Stager:
        """What stages files for a snapshot to come; it pickles. ``transaction`` commits them under its id."""
        return Stager(
            self._store,
            self.id,
            self._layout,
            self._components,
            self._ids.next() if snapshot_id is None else check_id(snapshot_id, kind="snapshot"),
            self._timestamp_column,
            runtime=self._runtime,
        )

    def settle(self) -> None:
        """Publish what a writer that died left unpublished. Every commit does this by itself."""
        self._committer.settle()

    # -- history -------------------------------------------------------------------------------

    def latest(self) -> Snapshot:
        """The newest snapshot, read from the store; the next write is based on it."""
        return Snapshot(self._latest())

    def snapshot(self, id: str) -> Snapshot:
        """The snapshot with this id."""
        return Snapshot(self._chain.require(check_id(id, kind="snapshot")))

    def snapshots(self) -> list[Snapshot]:
        """All snapshots, oldest first; an empty list if there are none."""
        return [Snapshot(manifest) for manifest in self._history.oldest_first(self._visible())]

    def history(self, *, as_of: SnapshotLike | datetime | None = None) -> Iterator[Snapshot]:
        """The snapshots newest first, read only as far as you iterate."""
        return map(Snapshot, self._history.newest_first(self._end(as_of)))

    def changes(
        self, since: SnapshotLike | None = None, until: SnapshotLike | datetime | None = None
    ) -> list[Snapshot]:
        """The snapshots after ``since``, up to and including ``until``, oldest first."""
        return [Snapshot(manifest) for manifest in self._between(since, until)]

    # -- reading -------------------------------------------------------------------------------

    def read(self, id: SnapshotLike, *, verify: bool = False) -> Any:
        """What one snapshot itself holds: bytes without a codec, a list from JSONL, else an Arrow table.

        Args:
            id: A snapshot or its id.
            verify: Check every file against its recorded checksum first.
        """
        manifest = self._manifest(id)
        return read_files(self._store, manifest, self._components, verify=verify, runtime=self._runtime)

    def scan(
        self,
        *,
        as_of: SnapshotLike | datetime | None = None,
        since: SnapshotLike | None = None,
        columns: Sequence[str] | None = None,
        where: pc.Expression | None = None,
    ) -> pa.RecordBatchReader:
        """Everything from the first snapshot up to ``as_of`` (after ``since``) as a stream of Arrow batches.

        Args:
            as_of: A snapshot, its id, or a moment; None is now.
            since: Leave out this snapshot and everything before it.
            columns: Only these columns.
            where: Only rows for which this expression is true; files that cannot have any are not opened.
        """
        return self.plan(as_of=as_of, since=since).read(columns=columns, where=where)

    def plan(
        self, *, as_of: SnapshotLike | datetime | None = None, since: SnapshotLike | None = None
    ) -> Scan:
        """The files a scan would read, without reading them."""
        return Scan(
            self._store,
            self.id,
            self._layout,
            self._components,
            self._between(since, as_of),
            runtime=self._runtime,
        )

    # -- inside --------------------------------------------------------------------------------

    def _visible(self) -> Manifest | None:
        head: Head[Manifest] = self._chain.resolve()
        self._committer.see(head)
        return head.manifest

    def _latest(self) -> Manifest:
        manifest = self._visible()
        if manifest is None:
            raise NoSnapshotsError(
                f"dataset {self.id!r} in {self._store.url} has no snapshots yet: write one first"
            )
        return manifest

    def _manifest(self, id: SnapshotLike) -> Manifest:
        own = self._id_of(id)
        return id.manifest if isinstance(id, Snapshot) else self._chain.require(own)

    def _id_of(self, id: SnapshotLike) -> str:
        if not isinstance(id, Snapshot):
            return check_id(id, kind="snapshot")
        if id.manifest.dataset_id != self.id:
            raise NotFoundError(f"{id} is of dataset {id.manifest.dataset_id!r}, this is {self.id!r}")
        return id.id

    def _end(self, as_of: SnapshotLike | datetime | None) -> Manifest | None:
        if as_of is None:
            return self._visible()
        if not isinstance(as_of, datetime):
            return self._manifest(as_of)
        if as_of.tzinfo is None:
            raise InvalidOptionError(
                f"as_of={as_of.isoformat()} has no time zone: give it one, such as tzinfo=UTC"
            )
        for manifest in self._history.newest_first(self._visible()):
            if Snapshot(manifest).created_at <= as_of:
                return manifest
        raise NoSnapshotsError(f"dataset {self.id!r} had no snapshots at {as_of.isoformat()}")

    def _between(
        self, since: SnapshotLike | None, until: SnapshotLike | datetime | None
    ) -> Sequence[Manifest]:
        end = self._end(until)
        if since is None:
            return self._history.line(end)
        start = self._id_of(since)
        found: list[Manifest] = []
        for manifest in self._history.newest_first(end):
            if manifest.snapshot_id == start:
                return found[::-1]
            found.append(manifest)
        raise NotFoundError(
            f"snapshot {start!r} is not in the history of dataset {self.id!r}"
            + (f" up to {end.snapshot_id!r}" if end else ", which is empty")
        )

    def _keep_history_short(self, manifest: Manifest) -> None:
        if is_boundary(manifest):
            self._runtime.background(lambda: write_segments(self._chain, manifest))

    def _copies(self, manifest: Manifest) -> list[str]:
        partitions = sorted(partitions_of(manifest.dataset_id, manifest.files, self._layout))
        return self._layout.copies(self.id, manifest.snapshot_id, partitions)

    def __repr__(self) -> str:
        return f"Dataset({self.id!r}, {self._store.url!r})"


def _pair(key: Key | None) -> tuple[str, str] | None:
    """The (writer, key) of an idempotent commit; a bare key has the writer ''."""
    match key:
        case None:
            return None
        case str() if key and is_utf8(key):
            return ("", key)
        case (str() as writer, str() as name) if name and is_utf8(writer + name):
            return (writer, name)
    raise InvalidOptionError(f"idempotency_key must be a non-empty string or (writer, key), got {key!r}")
