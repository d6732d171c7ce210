"""Begin the writes of an opened dataset: check what was given, find the definition, make the transaction."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import msgspec

from lode.codec.components import Components, codec_named
from lode.codec.protocol import StreamingCodec, has_schema, takes_any_record
from lode.codec.records import is_rereadable, peek_schema
from lode.definition import REMOVALS
from lode.errors import (
    CodecConfiguredError,
    CodecNotStreamableError,
    InvalidOptionError,
    InvalidPathError,
    NilIteratorError,
    PartitioningNotSupportedError,
    SchemaViolationError,
)
from lode.evolution import adopt, has_null_types, include, type_null_columns
from lode.format.ids import is_generated, is_utf8
from lode.format.manifest import Manifest, check_metadata
from lode.read.resolve import Head
from lode.read.tags import load_tag
from lode.read.which import check_new_snapshot_id
from lode.write.dataset_draft import DatasetDraft
from lode.write.retry import OnConflict, check_on_conflict
from lode.write.stream import StreamWriter
from lode.write.transaction import Transaction

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from lode.codec.protocol import Codec
    from lode.definition import Definition
    from lode.evolution import Evolution
    from lode.handle import DatasetHandle, FoundDataset
    from lode.reads import Reads, SnapshotRef
    from lode.snapshot import Snapshot
    from lode.write.removal import Removal

IdempotencyKey: TypeAlias = str | tuple[str, str]
"""A key, or (writer, key)."""


class BegunWrite(NamedTuple):
    """A write whose arguments were checked, and what the dataset is as far as this process knows."""

    found: FoundDataset
    definition: Definition
    components: Components
    base: Head[Manifest] | None
    metadata: dict[str, Any]
    idempotency: tuple[str, str] | None
    snapshot_id: str | None
    append: bool
    creates: bool
    # Whether others have certainly committed since the head that this process knows.
    is_behind: bool = False
    # Whether stored rows are rewritten. They need not fit a stricter schema that the caller has given.
    rewrites: bool = False
    target_file_bytes: int | None = None
    sort_by: Sequence[str] | None = None


class Writes:
    """Begins the writes of one opened dataset."""

    def __init__(self, handle: DatasetHandle, reads: Reads) -> None:
        self._handle = handle
        self._reads = reads

    def write(self, begun: BegunWrite, data: Any, *, evolve: bool | Evolution) -> Snapshot:
        """Stage the data and commit it as one snapshot."""
        schema = None
        if has_schema(begun.components.codec):
            data, schema = peek_schema(data)
        try:
            return self._write(begun, data, schema, evolve=evolve)
        except SchemaViolationError:
            # Somebody else may have changed the columns. What can be read only once cannot be tried again.
            newer = self.with_newest_definition(begun) if is_rereadable(data) else None
            if newer is None:
                raise
        return self._write(newer, data, schema, evolve=evolve)

    def _write(
        self, begun: BegunWrite, data: Any, schema: pa.Schema | None, *, evolve: bool | Evolution
    ) -> Snapshot:
        with self._transaction(begun, schema, evolve=evolve, stages_again=True) as transaction:
            if transaction.replayed is not None:
                return transaction.replayed
            transaction._stage_whole(data)
            return transaction.commit()

    def stream(
        self,
        metadata: dict[str, Any] | None,
        idempotency_key: IdempotencyKey | None,
        base: SnapshotRef | None,
        on_conflict: OnConflict,
    ) -> StreamWriter:
        """Open one blob to be written piece by piece."""
        self._refuse_codec(self._handle.given.codec)
        begun = self.begin(metadata, idempotency_key, None, base, on_conflict)
        self._refuse_codec(begun.components.codec)
        return StreamWriter(self.transaction(begun, None, evolve=False))

    def _refuse_codec(self, codec: Codec | None) -> None:
        if codec is not None:
            raise CodecConfiguredError(
                f"dataset {self._handle.id!r} has the codec {codec.name!r} and stream_write takes "
                "raw bytes: use write() or stream_write_records()"
            )

    def check_streamed(self, records: Any, metadata: dict[str, Any] | None) -> None:
        """Refuse records that cannot be written in one pass into one file."""
        if records is None:
            raise NilIteratorError("stream_write_records needs an iterator of records, got None")
        check_metadata(metadata)
        id, codec = self._handle.id, self._handle.given.codec
        if codec is None:
            found, head = self._handle.find_to_write()
            codec = self._handle.components(found, self._handle.definition_at(found, head.manifest)).codec
        if not isinstance(codec, StreamingCodec):
            name = codec.name if codec else None
            raise CodecNotStreamableError(
                f"dataset {id!r} has the codec {name!r}, which cannot encode record by record: "
                "use write(), or lode.JSONL(), lode.Parquet(schema) or lode.ArrowIPC()"
            )
        keys = self._handle.layout.keys
        if keys:
            raise PartitioningNotSupportedError(
                f"dataset {id!r} is partitioned by {', '.join(keys)}, which a "
                "single pass into one file cannot be: use transaction().write_records()"
            )

    def transaction(
        self,
        begun: BegunWrite,
        schema: pa.Schema | None,
        *,
        evolve: bool | Evolution,
        removal: Removal | None = None,
    ) -> Transaction:
        """Make the transaction of a write whose data has these columns, if they are known."""
        try:
            return self._transaction(begun, schema, evolve=evolve, removal=removal)
        except SchemaViolationError:
            newer = self.with_newest_definition(begun)
            if newer is None:
                raise
        return self._transaction(newer, schema, evolve=evolve, removal=removal)

    def with_newest_definition(self, begun: BegunWrite) -> BegunWrite | None:
        """The same write to the dataset as it is defined now; None if that is what was known."""
        newest = begun.found.chain.resolve().manifest
        definition = self._handle.definition_at(begun.found, newest)
        if definition.digest == begun.definition.digest:
            return None
        components = self._handle.components(begun.found, definition)
        return begun._replace(definition=definition, components=components, is_behind=True)

    def begin(
        self,
        metadata: dict[str, Any] | None,
        idempotency_key: IdempotencyKey | None,
        snapshot_id: str | None,
        base: SnapshotRef | None,
        on_conflict: OnConflict,
    ) -> BegunWrite:
        """Check what a write was given before anything is read, then find out what the dataset is."""
        append = check_on_conflict(on_conflict, based=base is not None)
        clean = check_metadata(metadata)
        pair = _pair(idempotency_key)
        id = None if snapshot_id is None else check_new_snapshot_id(snapshot_id)
        # Files are staged while another thread commits. The commit of these compares the definitions.
        found, head = self._handle.find_to_write(wait=False)
        if id is not None and not is_generated(id) and load_tag(found.chain, id) is not None:
            raise InvalidPathError(f"snapshot id {id!r} is a tag of {found.chain.name}: choose another")
        parent = self._reads.manifest(base) if base is not None else None
        definition = self._handle.definition_at(found, head.manifest)
        return BegunWrite(
            found,
            definition,
            self._handle.components(found, definition),
            Head(parent.snapshot_id.encode(), parent) if parent else None,
            clean,
            pair,
            id,
            append,
            head.manifest is None,
        )

    def _transaction(
        self,
        begun: BegunWrite,
        schema: pa.Schema | None,
        *,
        evolve: bool | Evolution,
        removal: Removal | None = None,
        stages_again: bool = False,
    ) -> Transaction:
        found = begun.found
        if callable(evolve):
            self._handle.define(found, found.committer.known_head(), begun.definition)
        evolution = evolve if callable(evolve) else self._evolution(schema) if evolve else None
        if evolution is None and schema is not None and has_null_types(begun.definition):
            evolution = partial(type_null_columns, schema=schema)
        if removal is not None:
            evolution = partial(with_removals, first=evolution)
        target = begun.definition if evolution is None else evolution(begun.definition)
        stager = self._handle.stager(
            found, begun.definition, target, schema, begun.snapshot_id, rewrites=begun.rewrites
        )
        adds_columns = begun.definition.columns not in (None, target.columns)
        if adds_columns and not stages_again:
            # Another writer may add columns first, and the new ones get other ids then.
            stager = stager.without_field_ids()
        if begun.target_file_bytes is not None or begun.sort_by is not None:
            stager = stager.with_files(begun.target_file_bytes, begun.sort_by)
        draft = DatasetDraft(
            stager.snapshot_id,
            begun.base,
            begun.idempotency,
            writer=self._handle.writer,
            append=begun.append,
            is_behind=begun.is_behind,
            creates=begun.creates,
            fresh=begun.snapshot_id is None,
            stager=stager,
            metadata=begun.metadata,
            now_ns=self._handle.runtime.now_ns,
            definitions=found.definitions,
            states=found.states,
            definition=begun.definition,
            evolution=evolution,
            operation=None if removal is None else removal.operation,
            removal=removal,
        )
        return Transaction(found.committer, draft, found.committer.begin(draft))

    def _evolution(self, coming: pa.Schema | None) -> Evolution:
        """The change that makes room for the schema it was opened with, and for the data's own."""
        given = self._handle.given.schema

        def change(definition: Definition) -> Definition:
            any_record = takes_any_record(codec_named(definition.codec))
            if definition.columns is None and any_record and self._handle.exists:
                if given is None:
                    return definition  # records of any shape need no change
                raise InvalidOptionError(
                    f"dataset {self._handle.id!r} has records without a schema, which need not fit one: "
                    "write them with a schema to a new dataset"
                )
            for schema, declared in ((given, True), (coming, False)):
                if schema is not None:
                    definition = adopt(definition, schema)
                    definition = include(definition, schema, declared=declared)
            return definition

        return change


def with_removals(definition: Definition, first: Evolution | None = None) -> Definition:
    """The definition of a dataset whose commits remove files, so that readers must fold its history."""
    changed = definition if first is None else first(definition)
    if REMOVALS in changed.features:
        return changed
    return msgspec.structs.replace(changed, features=(*changed.features, REMOVALS))


def _pair(key: IdempotencyKey | None) -> tuple[str, str] | None:
    """The (writer, key) of an idempotent commit; a bare key has the writer ''."""
    match key:
        case None:
            return None
        case str() if key and is_utf8(key):
            return ("", key)
        case (str() as writer, str() as name) if name and is_utf8(writer + name):
            return (writer, name)
    raise InvalidOptionError(f"idempotency_key must be a non-empty string or (writer, key), got {key!r}")
