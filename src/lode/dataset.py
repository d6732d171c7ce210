"""The dataset: a named, linear history of immutable snapshots on a store.

``Dataset`` is the public face: it documents the arguments and calls ``Reads``, ``Writes`` or an operation in
``lode.change``. ``docs/design/architecture.md`` follows a write and a scan through the code.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Unpack
from warnings import warn

from lode.change import merge as merges
from lode.change import overwrite as overwrites
from lode.change.base import ChangeContext, OnChangeConflict
from lode.change.compact import compact
from lode.change.define import create, evolve
from lode.change.delete import delete
from lode.change.drop import DropReport, drop_dataset
from lode.change.restore import restore
from lode.codec.components import Components, components_of
from lode.codec.schema import to_schema
from lode.errors import InvalidOptionError
from lode.evolution import column_names
from lode.extras import needs
from lode.format.ids import check_id, check_new_id, check_writer
from lode.format.manifest import Manifest, check_metadata
from lode.format.paths import HiveLayout, Layout
from lode.handle import DatasetHandle
from lode.options import DatasetOptions, codec_with_schema
from lode.read.files import read_files
from lode.read.tags import Tag, load_tags
from lode.read.which import check_new_snapshot_id
from lode.reads import Reads, ScanOptions, SnapshotRef
from lode.runtime import REAL, Runtime
from lode.snapshot import CommitReport, Snapshot
from lode.store.open import open_store
from lode.store.protocol import Store, SupportsCompareAndSwap
from lode.write.retry import OnConflict, Retry, check_retry
from lode.write.tags import put_tag, remove_tag
from lode.writes import IdempotencyKey, Writes

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import pandas as pd
    import polars as pl
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.dataset as pads

    from lode.change.merge import WhenMatched, WhenNotMatched
    from lode.change.result import Change
    from lode.codec.checksum import Checksum
    from lode.codec.compress import Compressor
    from lode.codec.protocol import Codec
    from lode.codec.schema import SchemaSpec, TypeSpec
    from lode.definition import Definition
    from lode.evolution import Evolution
    from lode.read.incremental import OnRemoval
    from lode.read.resolve import Chain
    from lode.read.scan import Scan
    from lode.write.stage import Stager
    from lode.write.stream import StreamWriter
    from lode.write.transaction import Transaction


class Dataset:
    """Snapshots of one dataset on one store. Cheap to make; nothing is read before it is needed.

    A dataset that exists is opened as it is stored: its definition records the layout, codec, compressor and
    columns. An option that is given is checked against it. A dataset that does not exist is created by the
    first write, with the options that are given.

    Args:
        id: The dataset's name.
        store: A URL (``s3://…``, ``gs://…``, ``az://…``, ``file://…``, ``memory://``), a path, or a store.
        codec: How records become files: ``lode.JSONL()``, ``lode.Parquet(schema)``, ``lode.ArrowIPC()``, a
            codec's name, or one of your own. A new dataset without one stores each write as one blob.
        layout: Where files are stored; ``lode.HiveLayout("day")`` partitions them.
        compressor: ``"noop"``, ``"gzip"``, ``"zstd"`` or a compressor, applied to whole files.
        checksum: ``"md5"``, ``"sha256"``, ``"xxh3-128"`` or a checksum; without one a new dataset has none.
        retry: Whether a conflicting commit is tried again on top of the other writer's.
        timestamp_column: The column whose range snapshots record; without it, records that have a
            ``timestamp()`` method provide it. Never guessed.
        observer: Called with (snapshot id, report) after each commit.
        writer: Name recorded in every snapshot this object commits. Default: ``$LODE_WRITER``.
        store_options: Options of the store, if it is given as a URL or a path; as for ``open_store``.
        runtime: Clock, chance and threads, for simulations.
    """

    def __init__(
        self,
        id: str,
        store: str | os.PathLike[str] | Store,
        *,
        codec: Codec | str | None = None,
        layout: Layout | None = None,
        compressor: Compressor | str | None = None,
        checksum: Checksum | str | None = None,
        retry: Retry | None = None,
        timestamp_column: str | None = None,
        observer: Callable[[str, CommitReport], None] | None = None,
        writer: str | None = None,
        store_options: Mapping[str, Any] | None = None,
        runtime: Runtime = REAL,
    ) -> None:
        self._id = check_id(id, kind="dataset")
        if layout is not None and not isinstance(layout, Layout):
            raise InvalidOptionError(f"layout is {layout!r}: give a layout, such as lode.HiveLayout('day')")
        if layout is not None:
            layout.chain(id)  # refuses a name that has another meaning in this layout
        parts = components_of(codec, "noop" if compressor is None else compressor, checksum)
        given = DatasetOptions(
            parts.codec,
            layout,
            None if compressor is None else parts.compressor,
            parts.checksum,
            timestamp_column,
        )
        self._store = open_store(store, **(store_options or {}))
        self._runtime = runtime
        self._handle = DatasetHandle(
            id,
            self._store,
            given,
            writer=check_writer(writer),
            retry=check_retry(retry),
            observer=observer,
            runtime=runtime,
        )
        self._reads = Reads(self._handle)
        self._writes = Writes(self._handle, self._reads)
        self._changes = ChangeContext(self._handle, self._reads, self._writes)

    @classmethod
    def create(
        cls,
        id: str,
        store: str | os.PathLike[str] | Store,
        *,
        schema: SchemaSpec | None = None,
        partition_by: Sequence[str] = (),
        codec: Codec | str | None = None,
        layout: Layout | None = None,
        compressor: Compressor | str | None = None,
        checksum: Checksum | str | None = None,
        timestamp_column: str | None = None,
        sort_by: Sequence[str] = (),
        primary_key: Sequence[str] = (),
        description: str | None = None,
        properties: dict[str, Any] | None = None,
        shared_with_go: bool = False,
        retry: Retry | None = None,
        observer: Callable[[str, CommitReport], None] | None = None,
        writer: str | None = None,
        store_options: Mapping[str, Any] | None = None,
        runtime: Runtime = REAL,
    ) -> Dataset:
        """Create a dataset, as one empty snapshot that records its definition.

        Args:
            id: The dataset's name.
            store: A URL, a path, or a store.
            schema: Its columns: a pyarrow schema, or a simple one such as ``{"day": "string!"}``;
                without a codec it is stored as Parquet.
            partition_by: The columns it is partitioned by; the same as ``layout=lode.HiveLayout(…)``.
            codec: As for ``Dataset``.
            layout: As for ``Dataset``.
            compressor: As for ``Dataset``.
            checksum: As for ``Dataset``.
            timestamp_column: As for ``Dataset``.
            sort_by: The columns by which the rows of each file are sorted.
            primary_key: The columns that identify a row; recorded for tools that merge.
            description: What it is for.
            properties: Any JSON object.
            shared_with_go: Whether programs of Go may work on it at the same time. Every commit then takes
                one request more. Parquet has the columns that Go reads correctly, sorted by name.
            retry: As for ``Dataset``.
            observer: As for ``Dataset``.
            writer: As for ``Dataset``.
            store_options: As for ``Dataset``.
            runtime: As for ``Dataset``.

        Raises:
            DatasetExistsError: There is a dataset of that name.
        """
        for what, names in (
            ("partition_by", partition_by),
            ("sort_by", sort_by),
            ("primary_key", primary_key),
        ):
            column_names(what, names)
        if partition_by and layout is not None and layout.keys != tuple(partition_by):
            raise InvalidOptionError(f"partition_by is {list(partition_by)} and layout is {layout}: give one")
        if partition_by and layout is None:
            layout = HiveLayout(*partition_by)
        made = cls(
            id,
            store,
            codec=codec_with_schema(codec, schema),
            layout=layout,
            compressor=compressor,
            checksum=checksum,
            retry=retry,
            timestamp_column=timestamp_column,
            observer=observer,
            writer=writer,
            store_options=store_options,
            runtime=runtime,
        )
        create(
            made._changes,
            sort_by=tuple(sort_by),
            primary_key=tuple(primary_key),
            description=description,
            properties=check_metadata(properties, "properties"),
            shared_with_go=shared_with_go,
        )
        return made

    @property
    def id(self) -> str:
        """The dataset's name."""
        return self._id

    @property
    def store(self) -> Store:
        """The store it is on."""
        return self._store

    @property
    def exists(self) -> bool:
        """Whether it has a snapshot now. One that was dropped has none."""
        return self._handle.exists

    @property
    def layout(self) -> Layout:
        """Where its files are stored: as given, else as found on the store."""
        return self._handle.layout

    @property
    def given_layout(self) -> Layout | None:
        """The layout that this object was opened with; None if it is found on the store."""
        return self._handle.given.layout

    @property
    def components(self) -> Components:
        """The codec, compressor and checksum its files pass through, with the newest schema."""
        found, head = self._handle.look()
        return self._handle.components(found, self._handle.definition_at(found, head.manifest))

    @property
    def definition(self) -> Definition:
        """What the dataset is: read from the store, or, if it does not exist, what it would be created as."""
        found, head = self._handle.look()
        # Of a dataset whose first commit is not published yet, its intent says what it is.
        first = head.pending.manifest if head.pending is not None else None
        return self._handle.definition_at(found, head.manifest or first)

    @property
    def schema(self) -> pa.Schema | None:
        """Its columns, as the newest snapshot has them; None for blobs and for records without a schema."""
        return self.definition.schema

    def schema_at(self, snapshot: SnapshotRef) -> pa.Schema | None:
        """Its columns at a snapshot; None for blobs and for records without a schema."""
        return self.definition_at(snapshot).schema

    def definition_at(self, snapshot: SnapshotRef) -> Definition:
        """What the dataset was at a snapshot, named as in ``snapshot(ref)``."""
        return self._handle.find().definitions.at(self._reads.manifest(snapshot))

    @property
    def chain(self) -> Chain[Manifest]:
        """The history as objects on the store, also a damaged one, for tools such as verify and sweep."""
        return self._handle.chain()

    @property
    def safe_for_many_writers(self) -> bool:
        """Whether the store can compare and swap; without that, one writer at a time is your promise."""
        return isinstance(self._store, SupportsCompareAndSwap)

    # -- writing -------------------------------------------------------------------------------

    def write(
        self,
        data: Any,
        metadata: dict[str, Any] | None = None,
        *,
        idempotency_key: IdempotencyKey | None = None,
        base: SnapshotRef | None = None,
        on_conflict: OnConflict = "raise",
        evolve: bool = False,
        target_file_bytes: int | None = None,
        sort_by: Sequence[str] | None = None,
    ) -> Snapshot:
        """Write ``data`` as one new snapshot.

        Args:
            data: Bytes without a codec. With one: dicts, dataclasses, msgspec structs, Arrow tables,
                batches or readers, anything that offers itself as Arrow (pandas, polars, duckdb), or a
                Spark DataFrame.
            metadata: Any JSON object; None means an empty one.
            idempotency_key: A key, or (writer, key). A second write under it returns the first's snapshot.
            base: The snapshot that ``data`` was computed from. An overlapping snapshot that is committed
                after it is a conflict. Without it the write expects the head that this object knows when it
                commits.
            on_conflict: ``"raise"`` refuses to follow a snapshot of another writer that overlaps;
                ``"append"`` follows any.
            evolve: Let new columns and wider types of the data, or of the schema that this object was opened
                with, become part of the dataset. Otherwise they are refused.
            target_file_bytes: Begin another file of a partition when one has reached this size; 128 MiB by
                default. Large data is encoded on several cores, in more and smaller files.
            sort_by: Columns by which the rows of each file are sorted, so that readers can skip row groups;
                those of the definition by default. Up to ``target_file_bytes`` are held in memory for it.
                Records of JSON lines keep their order.

        Raises:
            SchemaViolationError: The data does not fit the dataset's columns; nothing was uploaded.
            ComponentMismatchError: The dataset has another layout, codec or compressor.
        """
        if _is_spark(data):
            from lode.spark.write import write  # its tasks stage it: it is never brought to this process

            return write(
                self,
                data,
                metadata,
                idempotency_key=idempotency_key,
                base=base,
                on_conflict=on_conflict,
                evolve=evolve,
                target_file_bytes=target_file_bytes,
                sort_by=sort_by,
            )
        begun = self._writes.begin(metadata, idempotency_key, None, base, on_conflict)
        if target_file_bytes is not None or sort_by is not None:
            begun = begun._replace(target_file_bytes=target_file_bytes, sort_by=sort_by)
        return self._writes.write(begun, data, evolve=evolve)

    def stream_write(
        self,
        metadata: dict[str, Any] | None = None,
        *,
        idempotency_key: IdempotencyKey | None = None,
        base: SnapshotRef | None = None,
        on_conflict: OnConflict = "raise",
    ) -> StreamWriter:
        """Open one blob to be written piece by piece; ``commit()`` makes it a snapshot."""
        return self._writes.stream(metadata, idempotency_key, base, on_conflict)

    def stream_write_records(
        self,
        records: Iterable[Any],
        metadata: dict[str, Any] | None = None,
        *,
        idempotency_key: IdempotencyKey | None = None,
        base: SnapshotRef | None = None,
        on_conflict: OnConflict = "raise",
    ) -> Snapshot:
        """Write records as they are pulled from an iterator, in memory that does not grow with them."""
        self._writes.check_streamed(records, metadata)
        return self.write(
            records, metadata, idempotency_key=idempotency_key, base=base, on_conflict=on_conflict
        )

    def transaction(
        self,
        metadata: dict[str, Any] | None = None,
        *,
        idempotency_key: IdempotencyKey | None = None,
        snapshot_id: str | None = None,
        base: SnapshotRef | None = None,
        on_conflict: OnConflict = "raise",
        schema: SchemaSpec | None = None,
        evolve: bool | Evolution = False,
        replaces: Sequence[str] | None = None,
        target_file_bytes: int | None = None,
        sort_by: Sequence[str] | None = None,
    ) -> Transaction:
        """Begin a snapshot that threads, processes and tasks stage files for; one commit makes it visible.

        Args:
            metadata: Any JSON object; None means an empty one.
            idempotency_key: A key, or (writer, key). What was committed under it is in ``replayed``.
            snapshot_id: The id under which a ``stager`` elsewhere has staged; a new one if not given. An id
                that is committed is refused.
            base: The snapshot that the data is computed from, as for ``write``.
            on_conflict: ``"raise"`` or ``"append"``, as for ``write``.
            schema: The columns of what will be staged, if that is known: checked before anything is staged.
            evolve: Let new columns and wider types become part of the dataset; or a function from one
                definition to the next, which is applied again if another writer commits first.
            replaces: Partitions such as ``"day=mon"``, or ``[""]`` for everything: the commit replaces all
                rows that it finds there. The caller stages only rows that belong there.
            target_file_bytes: As for ``write``.
            sort_by: As for ``write``.
        """
        coming = None if schema is None else to_schema(schema)
        begun = self._writes.begin(metadata, idempotency_key, snapshot_id, base, on_conflict)
        begun = begun._replace(target_file_bytes=target_file_bytes, sort_by=sort_by)
        removal = None if replaces is None else overwrites.replacing(begun, replaces)
        return self._writes.transaction(begun, coming, evolve=evolve, removal=removal)

    def stager(self, snapshot_id: str | None = None) -> Stager:
        """A stager of files for a new snapshot; it pickles. ``transaction(snapshot_id=…)`` commits them."""
        id = None if snapshot_id is None else check_new_snapshot_id(snapshot_id)
        found, head = self._handle.look()
        definition = self._handle.definition_at(found, head.manifest)
        return self._handle.stager(found, definition, definition, None, id)

    def evolve(
        self,
        *,
        add: Mapping[str, TypeSpec] | None = None,
        widen: Mapping[str, TypeSpec] | None = None,
        relax: Iterable[str] = (),
        rename: Mapping[str, str] | None = None,
        drop: Iterable[str] = (),
        shared_with_go: bool = False,
        metadata: dict[str, Any] | None = None,
    ) -> Snapshot:
        """Change the columns, as one snapshot without rows. No file is rewritten.

        Args:
            add: New columns and their types; rows that exist have null there.
            widen: Columns and their wider types, such as int32 to int64.
            relax: Required columns that may be null from now on.
            rename: Columns and their new names.
            drop: Columns that readers no longer see.
            shared_with_go: Whether programs of Go work on it from now on, as for ``create``.
            metadata: Any JSON object; None means an empty one.

        Returns:
            The new snapshot, or the newest one if nothing had to change.

        Raises:
            InvalidOptionError: A column is not there, or is a partition key.
            SchemaViolationError: Rows that exist would not fit.
            SnapshotConflictError: Another writer changed the columns first, and both do not go together.
        """
        return evolve(
            self._changes,
            add=add,
            widen=widen,
            relax=relax,
            rename=rename,
            drop=drop,
            shared_with_go=shared_with_go,
            metadata=metadata,
        )

    # -- changing ------------------------------------------------------------------------------

    def overwrite(
        self,
        data: Any,
        metadata: dict[str, Any] | None = None,
        *,
        partitions: Sequence[str | Mapping[str, Any]] | None = None,
        where: pc.Expression | str | None = None,
        everything: bool = False,
        idempotency_key: IdempotencyKey | None = None,
        on_conflict: OnChangeConflict = "raise",
        evolve: bool = False,
        dry_run: bool = False,
        progress: Callable[[int, int | None], None] | None = None,
    ) -> Change:
        """Replace rows by ``data``, as one snapshot: by default all rows of the partitions that it touches.

        Args:
            data: The new rows, as for ``write``.
            metadata: Any JSON object; None means an empty one.
            partitions: Replace these instead, also those that ``data`` has no rows for: ``"day=mon"`` or
                ``{"day": "mon"}``. Rows outside of them are refused.
            where: Replace the rows for which this is true. ``data`` must fulfil it too.
            everything: Replace all rows.
            idempotency_key: A key, or (writer, key). A second call under it returns what the first changed.
            on_conflict: ``"raise"`` if another writer has changed the same rows, ``"redo"`` to replace them.
            evolve: As for ``write``.
            dry_run: Only report what would change. The rows are checked, and nothing stays on the store.
            progress: Called with (files done, files in all) while files are rewritten.

        Raises:
            SnapshotConflictError: Another writer has changed these rows meanwhile; nothing was replaced.
        """
        replace: Callable[..., Change]
        if _is_spark(data):
            from lode.spark.change import overwrite as on_spark

            replace = partial(on_spark, self, data)
        else:
            rows = overwrites.LocalRows(data)
            replace = partial(overwrites.overwrite, self._changes, rows, progress=progress)
        return replace(
            metadata,
            partitions=partitions,
            where=where,
            everything=everything,
            idempotency_key=idempotency_key,
            on_conflict=on_conflict,
            evolve=evolve,
            dry_run=dry_run,
        )

    def delete(
        self,
        where: pc.Expression | str,
        metadata: dict[str, Any] | None = None,
        *,
        idempotency_key: IdempotencyKey | None = None,
        on_conflict: OnChangeConflict = "raise",
        dry_run: bool = False,
        progress: Callable[[int, int | None], None] | None = None,
    ) -> Change:
        """Delete the rows for which ``where`` is true, as one snapshot.

        Files of which every row matches, by partition and statistics, are not opened. Others are rewritten
        without the rows. Earlier snapshots keep them until ``lode.expire``.

        Args:
            where: SQL such as ``"user = 7"``, or a pyarrow expression.
            metadata: Any JSON object; None means an empty one.
            idempotency_key: As for ``overwrite``.
            on_conflict: ``"raise"`` if another writer has changed rows where the condition can be true;
                ``"redo"`` prepares the deletion again on top of that.
            dry_run: Only report what would change.
            progress: Called with (files done, files in all) while files are rewritten.
        """
        return delete(
            self._changes,
            where,
            metadata,
            idempotency_key=idempotency_key,
            on_conflict=on_conflict,
            dry_run=dry_run,
            progress=progress,
        )

    def merge(
        self,
        data: Any,
        metadata: dict[str, Any] | None = None,
        *,
        on: Sequence[str] | None = None,
        when_matched: WhenMatched = "update",
        when_not_matched: WhenNotMatched = "insert",
        idempotency_key: IdempotencyKey | None = None,
        on_conflict: OnChangeConflict = "raise",
        dry_run: bool = False,
        progress: Callable[[int, int | None], None] | None = None,
    ) -> Change:
        """Merge rows by their keys, as one snapshot. Only files that can have one of the keys are opened.

        Args:
            data: Rows, as for ``write``. No two may have the same key, and no key may be null.
            metadata: Any JSON object; None means an empty one.
            on: The key columns; the primary key of the definition by default.
            when_matched: ``"update"`` gives rows with the same key the new values, ``"delete"`` removes them,
                ``"ignore"`` keeps them. Columns that ``data`` does not have keep their values, so all records
                must have the same ones.
            when_not_matched: ``"insert"`` adds rows whose key is new, ``"ignore"`` leaves them out.
            idempotency_key: As for ``overwrite``.
            on_conflict: As for ``delete``.
            dry_run: Only report what would change.
            progress: Called with (files done, files in all), first while keys are looked for.
        """
        merge: Callable[..., Change]
        if _is_spark(data):
            from lode.spark.change import merge as on_spark

            merge = partial(on_spark, self, data)
        else:
            rows = merges.LocalRows(data, self._changes.workers)
            merge = partial(merges.merge, self._changes, rows, progress=progress)
        return merge(
            metadata,
            on=on,
            when_matched=when_matched,
            when_not_matched=when_not_matched,
            idempotency_key=idempotency_key,
            on_conflict=on_conflict,
            dry_run=dry_run,
        )

    def compact(
        self,
        metadata: dict[str, Any] | None = None,
        *,
        target_file_bytes: int | None = None,
        sort_by: Sequence[str] | None = None,
        where: pc.Expression | str | None = None,
        idempotency_key: IdempotencyKey | None = None,
        dry_run: bool = False,
        progress: Callable[[int, int | None], None] | None = None,
    ) -> Change:
        """Put the rows of small files into fewer large ones, as one snapshot. No row changes.

        It never fails because of other writers, and no other operation fails because of it: files that
        others have replaced meanwhile are left alone.

        Args:
            metadata: Any JSON object; None means an empty one.
            target_file_bytes: The size of the new files; 128 MiB by default.
            sort_by: Columns by which the rows of each new file are sorted. Default: those of the definition.
            where: Only files that may have rows for which this is true.
            idempotency_key: As for ``overwrite``.
            dry_run: Only report what would change.
            progress: Called with (files done, files in all).
        """
        return compact(
            self._changes,
            metadata,
            target_file_bytes=target_file_bytes,
            sort_by=sort_by,
            where=where,
            idempotency_key=idempotency_key,
            dry_run=dry_run,
            progress=progress,
        )

    def restore(
        self, snapshot: SnapshotRef, metadata: dict[str, Any] | None = None, *, dry_run: bool = False
    ) -> Change:
        """Return to the rows and columns of an earlier snapshot, as one new snapshot. No file is copied.

        Args:
            snapshot: Which one, as in ``snapshot(ref)``.
            metadata: Any JSON object; None means an empty one.
            dry_run: Only report what would change.

        Raises:
            SnapshotExpiredError: Its files may be gone.
            SnapshotConflictError: Another writer has changed rows meanwhile; nothing was restored.
        """
        return restore(self._changes, snapshot, metadata, dry_run=dry_run)

    def drop(
        self,
        *,
        force: bool = False,
        base: SnapshotRef | None = None,
        dry_run: bool = False,
        progress: Callable[[int, int | None], None] | None = None,
    ) -> DropReport:
        """Drop the dataset: all rows, all snapshots and their files. This cannot be undone.

        The drop is a commit. A writer that comes later is refused with ``DatasetDroppedError``. Then the
        files are removed. If that is interrupted, call it again. The name can be used anew at once.

        Args:
            force: Also drop it if it has tags.
            base: Only if this is still the newest snapshot.
            dry_run: Only report what would be removed.
            progress: Called with (objects removed, None) now and then.

        Raises:
            NoSnapshotsError: It does not exist.
            InvalidOptionError: It has tags.
            SnapshotConflictError: Another snapshot follows ``base``; nothing was dropped.
        """
        return self._drop(force=force, base=base, dry_run=dry_run, progress=progress)

    def _drop(self, **options: Any) -> DropReport:
        """The same, with the options of ``drop_dataset``."""
        return drop_dataset(self._changes, **options)

    def settle(self) -> None:
        """Publish what a writer that died left unpublished. Every commit does this by itself."""
        self._handle.find().committer.settle()

    # -- history -------------------------------------------------------------------------------

    def latest(self) -> Snapshot:
        """The newest snapshot, read from the store. The next commit of this object expects it.

        So a commit of another writer before this call does not conflict, and one after it does. Commits
        that have begun keep what they expect. ``snapshot("latest")`` and all other reads change nothing.

        Raises:
            NoSnapshotsError: There is none.
            HistoryLostError: This object knows a newer one, which was lost or replaced.
        """
        return Snapshot(self._reads.latest())

    def snapshot(self, ref: SnapshotRef) -> Snapshot:
        """The snapshot that ``ref`` names.

        Args:
            ref: An id or its unique beginning, a tag, a number from 1, ``latest``, ``latest~2``, or a time: a
                ``datetime``, a ``date`` or a text such as ``2026-11-15T12:00Z`` is the newest snapshot then.
                A time as text without a zone is in UTC. A date means 00:00 UTC, when it begins.
        """
        return Snapshot(self._reads.manifest(ref))

    def snapshots(
        self, *, since: SnapshotRef | None = None, as_of: SnapshotRef | None = None
    ) -> list[Snapshot]:
        """The snapshots after ``since``, up to and including ``as_of``, oldest first.

        Both are named as in ``snapshot(ref)``; without them it is the whole history. After a time are the
        snapshots that were made later. A dataset without snapshots has an empty list.
        """
        return list(map(Snapshot, self._reads.between(since, as_of)[0]))

    def changes(
        self,
        since: SnapshotRef | None = None,
        until: SnapshotRef | None = None,
        *,
        as_of: SnapshotRef | None = None,
    ) -> list[Snapshot]:
        """The snapshots after ``since``, up to and including ``as_of``, oldest first, without compactions.

        A compaction changes no rows: ``snapshots`` has it too. ``Snapshot.operation`` and
        ``Snapshot.removed`` say what each of them did. ``until`` is the deprecated name of ``as_of``.
        """
        if until is not None:
            if as_of is not None:
                raise InvalidOptionError("until is the old name of as_of: give as_of alone")
            warn("changes(until=…) is deprecated: use as_of=…", DeprecationWarning, stacklevel=2)
        found = self._reads.between(since, until if as_of is None else as_of)[0]
        return [Snapshot(manifest) for manifest in found if not manifest.is_compaction]

    def history(
        self, *, since: SnapshotRef | None = None, as_of: SnapshotRef | None = None
    ) -> Iterator[Snapshot]:
        """The snapshots from ``as_of`` back to the one after ``since``, newest first.

        They are read only as far as you iterate.
        """
        return map(Snapshot, self._reads.newest_first(since, as_of))

    def tag(self, name: str, snapshot: SnapshotRef = "latest", *, dry_run: bool = False) -> Tag:
        """Give a snapshot a name, which is accepted wherever a snapshot is named.

        ``lode.expire`` keeps the files of tagged snapshots. A tag is not a snapshot: history does not change.
        To tag a snapshot again with the same name changes nothing.

        Args:
            name: The name. It must not look like a number, a date or ``latest``.
            snapshot: Which one, as in ``snapshot(ref)``.
            dry_run: Only check that the tag can be made.

        Raises:
            TagExistsError: The name is that of another snapshot.
            SnapshotExpiredError: The snapshot is expired.
        """
        manifest = self._reads.manifest(snapshot)
        check_new_id(self.id, kind="dataset")
        clock = self._runtime.now_ns
        return put_tag(self.chain, name, manifest, self._reads.floor, clock, dry_run=dry_run)

    def untag(self, name: str, *, dry_run: bool = False) -> None:
        """Remove a tag. The snapshot stays, as long as ``lode.expire`` keeps it.

        Args:
            name: The tag.
            dry_run: Only check that there is one.

        Raises:
            NotFoundError: There is no such tag.
        """
        remove_tag(self.chain, name, dry_run=dry_run)

    def tags(self) -> list[Tag]:
        """All tags, by name."""
        return load_tags(self.chain)

    # -- reading -------------------------------------------------------------------------------

    def read(self, snapshot: SnapshotRef, *, verify: bool = False) -> Any:
        """What one snapshot itself holds: bytes without a codec, a list from JSONL, else an Arrow table.

        Args:
            snapshot: Which one, as in ``snapshot(ref)``.
            verify: Check every file against its recorded checksum first.
        """
        plan = self.plan_snapshot(snapshot)
        return read_files(
            self._store, plan.manifests[0], plan.components, verify=verify, runtime=self._runtime
        )

    def scan(
        self,
        *,
        as_of: SnapshotRef | None = None,
        since: SnapshotRef | None = None,
        columns: Sequence[str] | None = None,
        where: pc.Expression | str | None = None,
        limit: int | None = None,
        on_removal: OnRemoval = "fail",
    ) -> pa.RecordBatchReader:
        """The rows at ``as_of``, or those that came after ``since``, as a stream of Arrow batches.

        Rows that a compaction, a delete or a merge has only rewritten did not come.

        Args:
            as_of: The last snapshot that counts, as in ``snapshot(ref)``; None is the newest.
            since: Leave out this snapshot and everything before it; of a time, everything made up to it.
            columns: Only these columns.
            where: Only rows for which this is true: SQL such as ``"n > 3 AND kind LIKE 'a%'"``, or a pyarrow
                expression. Files that cannot have any are not opened.
            limit: Stop after so many rows.
            on_removal: With ``since``, if rows were removed after it. ``"fail"``, the default, raises if rows
                from before were removed; otherwise it returns what the dataset has more than at ``since``.
                ``"ignore"`` returns all rows that were added, also those removed later. ``"report"`` returns
                what each snapshot removed and added, in order, with a column ``_change``: ``"delete"`` or
                ``"insert"``. Applied to the rows at ``since``, they give the rows at ``as_of``.

        Raises:
            RowsRemovedError: Rows from before ``since`` were removed, and ``on_removal`` is ``"fail"``.
            SnapshotExpiredError: Files of the range may be gone.
        """
        found = self._reads.existing(since, as_of, on_removal)
        return found.read(columns=columns, where=where, limit=limit)

    def count(
        self,
        *,
        as_of: SnapshotRef | None = None,
        since: SnapshotRef | None = None,
        where: pc.Expression | str | None = None,
        on_removal: OnRemoval = "fail",
    ) -> int:
        """The number of rows of a scan with these arguments. Without ``where`` no data file is read."""
        return self._reads.existing(since, as_of, on_removal).count(where)

    def to_pandas(self, **options: Unpack[ScanOptions]) -> pd.DataFrame:
        """A scan with these arguments as one pandas data frame. Needs pandas."""
        with needs("to_pandas", "pandas"):
            import pandas  # noqa: F401  # a missing one is reported before anything is read
        return self.scan(**options).read_pandas()

    def to_polars(self, **options: Unpack[ScanOptions]) -> pl.DataFrame:
        """A scan with these arguments as one polars data frame. Needs polars."""
        with needs("to_polars", "polars"):
            import polars as pl
        return pl.DataFrame(self.scan(**options))

    def dataset(
        self, *, as_of: SnapshotRef | None = None, where: pc.Expression | str | None = None
    ) -> pads.Dataset:
        """Everything up to ``as_of`` as a ``pyarrow.dataset.Dataset``, for other query engines.

        DuckDB, polars (``scan_pyarrow_dataset``), pandas and DataFusion push their columns and filters into
        it, and open only files that can match. Only manifests are read here. It can be scanned many times and
        pickles; with ``where`` it does not pickle, and DataFusion does not take it.

        Args:
            as_of: The last snapshot that counts, as in ``snapshot(ref)``; None is the newest.
            where: Only rows for which this is true, as for ``scan``.

        Raises:
            InvalidOptionError: pyarrow cannot read the files as they are: they are not Parquet, a compressor
                wraps them, or a column has another name in some. ``scan`` reads all of these.
        """
        return self._reads.existing(None, as_of).dataset(where)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows as an Arrow stream, for every tool that takes one: ``pa.table(ds)``."""
        return self._reads.existing(None, None).__arrow_c_stream__(requested_schema)

    def plan(
        self,
        *,
        as_of: SnapshotRef | None = None,
        since: SnapshotRef | None = None,
        on_removal: OnRemoval = "fail",
    ) -> Scan:
        """The files a scan would read, without reading them. A plan pickles."""
        return self._reads.plan(since, as_of, on_removal)

    def plan_snapshot(self, snapshot: SnapshotRef) -> Scan:
        """The files that one snapshot itself added, without reading them."""
        return self._reads.plan_snapshot(snapshot)

    def __reduce__(self) -> tuple[Any, ...]:
        # Clocks, threads and observers are of this process; the copy has its own.
        options = {
            "codec": self._handle.given.codec,
            "layout": self._handle.given.layout,
            "compressor": self._handle.given.compressor,
            "checksum": self._handle.given.checksum,
            "retry": self._handle.retry,
            "timestamp_column": self._handle.given.timestamp_column,
            "writer": self._handle.writer,
        }
        return _reopened, (self.id, self._store, options)

    def __repr__(self) -> str:
        return f"Dataset({self.id!r}, {self._store.url!r})"


def _is_spark(data: object) -> bool:
    """Whether these rows are a DataFrame of Spark."""
    return type(data).__module__.startswith("pyspark.")


def _reopened(id: str, store: Store, options: dict[str, Any]) -> Dataset:
    return Dataset(id, store, **options)
