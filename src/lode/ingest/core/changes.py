"""Apply a group of changes to a table: one merge of the last change of each key.

A row keeps the sequence number of its last change in a column that readers of the table do not see. The
numbers of deletions are in a dataset of their own, ``<table's dataset>.deleted``: without them, an older
change that arrives after a deletion would bring the row back.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from lode.change.base import Workers
from lode.change.keys import Source, gathered
from lode.codec.parquet import Parquet
from lode.dataset import Dataset
from lode.format.manifest import Removes
from lode.ingest.catalog.table import CHECKSUM, complete, stored_as
from lode.ingest.types.changes import CHANGE_SEQUENCE, CHANGE_TYPE, DELETE
from lode.lazy import pa, pt
from lode.upkeep.expire import expire

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import lode
    from lode.change.base import Base, Part
    from lode.ingest.catalog.table import TableDefinition
    from lode.read.scan import Scan
    from lode.store.protocol import Store
    from lode.write.removal import Removal
    from lode.write.stage import Staged, Stager

# As in the service: an older change that arrives later than this after a deletion brings the row back.
RETENTION: Final = timedelta(days=2)
# How many commits of deletions are kept as files of their own.
_COMMITS_PER_UPKEEP: Final = 64

_KEY: Final = "__key"
_ORDER: Final = "__order"
_SEQUENCE: Final = "__sequence"


class DeletedKeys:
    """The keys that were deleted with a sequence number. Each is kept for two days.

    Args:
        dataset_id: The dataset of the table.
        store: The lake.
    """

    def __init__(self, dataset_id: str, store: Store) -> None:
        kinds = {"key": pa.string(), "sequence": pa.string(), "deleted_at": pa.timestamp("us", "UTC")}
        self._schema = pa.schema([pa.field(name, kind, nullable=False) for name, kind in kinds.items()])
        self._dataset = Dataset(
            f"{dataset_id}.deleted",
            store,
            codec=Parquet(self._schema),
            compressor="noop",
            checksum=CHECKSUM,
            timestamp_column="deleted_at",
        )
        self._commits = 0

    def add(self, keys: Any, sequences: Any) -> None:
        """Record deletions. It comes before the commit of the table that applies them.

        If that commit does not follow, the deletion is not acknowledged. It then takes effect with the next
        change of its key, as if it were still on its way.
        """
        now = pa.repeat(pa.scalar(datetime.now(UTC), self._schema.field("deleted_at").type), len(keys))
        table = pa.Table.from_arrays([keys, sequences, now], schema=self._schema)
        self._dataset.write(table, on_conflict="append")
        self._commits += 1
        if self._commits % _COMMITS_PER_UPKEEP == 0:
            self._clean()

    def find(self, keys: Any) -> dict[int, str]:
        """The largest sequence number for each of these keys that was deleted, by its position."""
        import pyarrow.compute as pc

        found: dict[int, str] = {}
        if not len(keys) or not self._dataset.exists:
            return found
        compute: Any = pc
        bounds = compute.min_max(keys).as_py()
        where = (pc.field("key") >= bounds["min"]) & (pc.field("key") <= bounds["max"])
        for batch in self._dataset.scan(columns=["key", "sequence"], where=where):
            places = compute.index_in(batch.column("key"), value_set=keys)
            is_wanted = places.is_valid()
            sequences: Any = batch.column("sequence").filter(is_wanted)
            for place, sequence in zip(places.drop_null().to_pylist(), sequences.to_pylist(), strict=True):
                found[place] = max(found.get(place, ""), sequence)
        return found

    def _clean(self) -> None:
        """Forget old deletions, put small files together, and remove what no reader needs."""
        limit = datetime.now(UTC) - RETENTION
        self._dataset.delete(f"deleted_at < TIMESTAMP '{limit:%Y-%m-%d %H:%M:%S}+00:00'", on_conflict="redo")
        self._dataset.compact()
        expire(self._dataset, older_than=timedelta(hours=1), dry_run=False)


@dataclass(frozen=True, slots=True)
class _Latest:
    """The last change of each key of a group."""

    # In the columns of the dataset. In deletions only the key is certain to have a value.
    rows: pa.Table
    keys: Any
    sequences: Any
    deletes: Any
    # A change without a number counts by its arrival alone, and so do those that follow it.
    forced: Any
    # Changes that are older than a deletion of an earlier group, which counts in their place.
    undone: Any


class Changes:
    """The changes of a group of appends, in the order of their arrival.

    Args:
        batches: Rows of the table with the columns of changes.
        deleted: The deletions of earlier groups.
    """

    def __init__(self, batches: Sequence[pa.RecordBatch], deleted: DeletedKeys) -> None:
        self._batches = batches
        self._deleted = deleted
        self._is_recorded = False

    def stage(
        self, definition: TableDefinition, base: Base, transaction: lode.Transaction, removal: Removal
    ) -> bool:
        """Stage what the changes do to a snapshot of the table; returns whether there is anything to commit.

        Deletions are recorded before the commit, and looked for after the base was read. So a change that is
        applied at the same time by another server finds the deletion, or its commit is a conflict.
        """
        import pyarrow.compute as pc

        compute: Any = pc
        latest = _latest(definition, self._batches, _stored_schema(transaction.stager))
        self._record(latest)
        latest = self._with_deleted(latest)
        keys = definition.primary_key
        hits, outranked = _find(base, latest, keys)
        applied: Any = pa.array([not each for each in outranked], pa.bool_())
        replaced = [path for path, places in hits.items() if compute.any(applied.take(places)).as_py()]
        upserts = latest.rows.filter(compute.and_not(applied, latest.deletes))
        if not upserts.num_rows and not replaced and not self._is_recorded:
            return False
        rewrite = _Rewrite(base.reader, transaction.stager, keys, latest.keys.filter(applied))
        kept = Workers().each(rewrite, base.parts(replaced), None) if replaced else []
        removal.files = frozenset(replaced)
        removal.removed = base.state.removed(Removes(files=tuple(replaced)))
        removal.carried = tuple(file.path for part in kept for file in part.files)
        transaction.add(*kept)
        if upserts.num_rows:
            transaction.add(transaction.stager.write_records(iter(upserts.to_batches())))
        return True

    def _record(self, latest: _Latest) -> None:
        import pyarrow.compute as pc

        compute: Any = pc
        numbered = compute.and_(latest.deletes, latest.sequences.is_valid())
        if not self._is_recorded and compute.any(numbered, min_count=0).as_py():
            self._deleted.add(latest.keys.filter(numbered), latest.sequences.filter(numbered))
            self._is_recorded = True

    def _with_deleted(self, latest: _Latest) -> _Latest:
        """Put earlier deletions in the place of changes with smaller numbers."""
        import pyarrow.compute as pc

        compute: Any = pc
        numbered = compute.and_not(latest.sequences.is_valid(), latest.forced)
        if not compute.any(numbered, min_count=0).as_py():
            return latest
        found = self._deleted.find(latest.keys)
        if not found:
            return latest
        deleted = pa.array([found.get(place) for place in range(len(latest.keys))], pa.string())
        undone = compute.fill_null(compute.and_(numbered, compute.greater(deleted, latest.sequences)), False)
        return replace(
            latest,
            sequences=compute.if_else(undone, deleted, latest.sequences),
            deletes=compute.or_(latest.deletes, undone),
            undone=undone,
        )


def _stored_schema(stager: Stager) -> pa.Schema | None:
    return getattr(stager.components.codec, "schema", None)


def _latest(
    definition: TableDefinition, batches: Sequence[pa.RecordBatch], stored: pa.Schema | None
) -> _Latest:
    """The last change of each key: that with the largest number, then the one that arrived last."""
    import pyarrow.compute as pc

    compute: Any = pc
    fitted = [
        stored_as(
            definition.prepare(complete(batch, definition.schema), sequences=batch.column(CHANGE_SEQUENCE)),
            stored,
        )
        for batch in batches
    ]
    rows = pa.Table.from_batches(fitted).combine_chunks()
    kinds = pa.chunked_array([batch.column(CHANGE_TYPE) for batch in batches]).combine_chunks()
    keys = key_texts(rows, definition.primary_key)
    sequences: Any = rows.column(CHANGE_SEQUENCE).combine_chunks()
    order = pa.array(range(rows.num_rows), pa.int64())
    forced = pa.repeat(pa.scalar(False), rows.num_rows)
    ranked = pa.table({_KEY: keys, _SEQUENCE: compute.fill_null(sequences, ""), _ORDER: order})
    if sequences.null_count:
        # What arrived before the last change without a number does not count.
        resets = ranked.filter(sequences.is_null()).group_by(_KEY).aggregate([(_ORDER, "max")])
        places = compute.index_in(keys, value_set=resets.column(_KEY).combine_chunks())
        reset = resets.column(f"{_ORDER}_max").combine_chunks().take(places)
        forced = reset.is_valid()
        ranked = ranked.filter(compute.greater_equal(order, compute.fill_null(reset, -1)))
    if sequences.null_count < rows.num_rows:
        ranked = ranked.sort_by([(_SEQUENCE, "ascending"), (_ORDER, "ascending")])
    last = ranked.group_by(_KEY, use_threads=False).aggregate([(_ORDER, "last")])
    chosen: Any = last.column(f"{_ORDER}_last").combine_chunks()
    return _Latest(
        rows.take(chosen),
        keys.take(chosen),
        sequences.take(chosen),
        compute.equal(kinds.take(chosen), DELETE),
        forced.take(chosen),
        pa.repeat(pa.scalar(False), len(chosen)),
    )


def key_texts(rows: pa.Table, keys: Sequence[str]) -> Any:
    """One text for the primary key of each row. Two are equal only if all columns of the key are."""
    import pyarrow.compute as pc

    compute: Any = pc
    parts: list[Any] = []
    for key in keys:
        values: Any = rows.column(key)
        if pt.is_timestamp(values.type):
            values = values.cast(pa.int64())
        elif pt.is_date(values.type):
            values = values.cast(pa.int32())
        text = values.cast(pa.string())
        # The length comes first, so that no two lists of texts become the same text.
        parts += [f"{key}:", compute.binary_length(text).cast(pa.string()), ":", text, ";"]
    joined: Any = compute.binary_join_element_wise(*parts, "")
    return joined.combine_chunks() if isinstance(joined, pa.ChunkedArray) else joined


def _find(base: Base, latest: _Latest, keys: Sequence[str]) -> tuple[dict[str, Any], bytearray]:
    """Which changes have rows in which files, and which changes are older than the row they would change."""
    schema = base.definition.schema
    assert schema is not None
    source = Source(latest.rows, keys, schema)
    look = _Look(base.reader, keys, latest)
    hits: dict[str, Any] = {}
    outranked = bytearray(latest.rows.num_rows)
    for path, places, older in Workers().each(look, base.parts(source.candidates(base)), None):
        if len(places):
            hits[path] = places
        for place in older:
            outranked[place] = 1
    return hits, outranked


@dataclass(frozen=True, slots=True)
class _Look:
    """Looks for the keys of changes in a file. Only the columns of the key and the number are read."""

    reader: Scan
    keys: Sequence[str]
    latest: _Latest

    def __call__(self, part: Part) -> tuple[str, Any, set[int]]:
        import pyarrow.compute as pc

        compute: Any = pc
        latest = self.latest
        found: list[Any] = []
        older: set[int] = set()
        for rows in gathered(self.reader.of(part).read(columns=[*self.keys, CHANGE_SEQUENCE])):
            places = compute.index_in(key_texts(rows, self.keys), value_set=latest.keys)
            is_found = places.is_valid()
            places = places.drop_null()
            if not len(places):
                continue
            found.append(places)
            stored = rows.column(CHANGE_SEQUENCE).filter(is_found).combine_chunks()
            wanted, undone = latest.sequences.take(places), latest.undone.take(places)
            newer = compute.greater(stored, wanted)
            # A row with the number of an earlier deletion, or without one, came after it.
            kept = compute.and_(undone, compute.fill_null(compute.equal(stored, wanted), True))
            newer = compute.or_(compute.fill_null(newer, False), kept)
            loses = compute.and_not(newer, latest.forced.take(places))
            older.update(places.filter(loses).to_pylist())
        path = part[0].files[0].path
        return path, compute.unique(pa.concat_arrays(found)) if found else pa.array([], pa.int32()), older


@dataclass(frozen=True, slots=True)
class _Rewrite:
    """Stages the rows of a file that no change replaces."""

    reader: Scan
    stager: Stager
    names: Sequence[str]
    keys: Any

    def __call__(self, part: Part) -> Staged:
        return self.stager.rewrite(self._kept(self.reader.of(part)))

    def _kept(self, scan: Scan) -> Iterator[pa.RecordBatch]:
        import pyarrow.compute as pc

        compute: Any = pc
        for rows in gathered(scan.rows()):
            places = compute.index_in(key_texts(rows, self.names), value_set=self.keys)
            yield from rows.filter(places.is_null()).to_batches()
