"""Merge rows by their keys: update, delete or keep those that match, and insert the others."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, get_args

from lode.change import row_groups
from lode.change.base import Base, ChangeContext, Part, Workers, check_redo
from lode.change.keys import Hits, Matched, Source, gathered, one_array
from lode.change.result import Change
from lode.codec.coerce import as_mapping
from lode.codec.columnar import to_batch
from lode.codec.protocol import rows_of
from lode.codec.records import chunks_of, peek_schema
from lode.errors import InvalidOptionError, SchemaViolationError
from lode.evolution import check_columns, column_names
from lode.format.manifest import Removed, Removes
from lode.lazy import pa, pc
from lode.near import column_hint
from lode.write.removal import Removal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from lode.change.base import Progress
    from lode.read.scan import Scan
    from lode.write.stage import Staged, Stager
    from lode.writes import IdempotencyKey

WhenMatched: TypeAlias = Literal["update", "ignore", "delete"]
WhenNotMatched: TypeAlias = Literal["insert", "ignore"]


class MergeRows(Protocol):
    """The rows to merge: a table in this process, or a frame of Spark."""

    def open(self, base: Base, keys: Sequence[str], *, whole_rows: bool) -> None:
        """Convert the rows to the columns of the dataset, and check them and their keys.

        Args:
            base: The dataset.
            keys: The key columns.
            whole_rows: Refuse records of which some lack a column that others have.

        Raises:
            SchemaViolationError: A row has no key, two have the same, or a column does not fit.
        """

    def find(self, base: Base, progress: Progress | None) -> Found:
        """Look for the keys in the files that can have them."""

    def depends_on(self, base: Base) -> Callable[[str], bool]:
        """The partitions that can have the keys."""

    def rewrite(
        self, base: Base, found: Found, stager: Stager, when_matched: WhenMatched, progress: Progress | None
    ) -> list[Changed]:
        """Stage the files that were found, with the rows that match updated or left out."""

    def insert(self, found: Found, stager: Stager) -> list[Staged]:
        """Stage the rows that were not found."""


def merge(
    context: ChangeContext,
    rows: MergeRows,
    metadata: dict[str, Any] | None,
    *,
    on: Sequence[str] | None,
    when_matched: WhenMatched,
    when_not_matched: WhenNotMatched,
    idempotency_key: IdempotencyKey | None,
    on_conflict: str,
    dry_run: bool,
    progress: Progress | None,
) -> Change:
    """Merge rows into the dataset. See ``Dataset.merge``."""
    redo = check_redo(on_conflict)
    for what, given, choices in (
        ("when_matched", when_matched, get_args(WhenMatched)),
        ("when_not_matched", when_not_matched, get_args(WhenNotMatched)),
    ):
        if given not in choices:
            raise InvalidOptionError(f"{what} is {given!r}: it must be one of {', '.join(choices)}")
    base = context.base()
    rows.open(base, merge_keys(base, on), whole_rows=when_matched == "update")

    def attempt(removal: Removal) -> Change:
        base = context.base()
        removal.prepared_on = base.manifest.snapshot_id
        with context.transaction(context.begin(metadata, idempotency_key, base), removal) as transaction:
            if transaction.replayed is not None:
                return Change.of(transaction.replayed)
            found = rows.find(base, progress)
            new = found.missing if when_not_matched == "insert" else 0
            hit = {} if when_matched == "ignore" else found.rows
            if dry_run:
                return _preview(base, found, new, when_matched)
            if not hit and not new:
                return Change("merge")
            stager = transaction.stager
            removal.files = frozenset(hit)
            removal.removed = base.state.removed(Removes(files=tuple(hit)))
            removal.depends_on = rows.depends_on(base)
            for changed in rows.rewrite(base, found, stager, when_matched, progress) if hit else ():
                transaction.add(changed.kept, changed.updated)
                removal.carried += tuple(file.path for file in changed.kept.files)
            if new:
                transaction.add(*rows.insert(found, stager))
            return context.commit(transaction)

    return context.repeat(attempt, lambda: Removal("merge"), redo=redo)


@dataclass(slots=True)
class Found:
    """Which rows of the source the dataset has, and in which files."""

    # By path, the number of rows that match.
    rows: dict[str, int] = field(default_factory=dict)
    # By path, which rows match, if they are in this process and fit into memory.
    hits: dict[str, Hits] = field(default_factory=dict)
    # Whether each row of the source matches, if they are in this process; and the number of the others.
    matched: Any = None
    missing: int = 0


@dataclass(frozen=True, slots=True)
class Changed:
    """What replaces a file: its rows that do not match, and apart from them the updated ones."""

    kept: Staged
    updated: Staged


class LocalRows:
    """Rows in this process."""

    def __init__(self, data: Any, workers: Workers) -> None:
        self._data = data
        self._workers = workers
        self._source: Source | None = None

    @property
    def source(self) -> Source:
        assert self._source is not None, "open() comes first"
        return self._source

    def open(self, base: Base, keys: Sequence[str], *, whole_rows: bool) -> None:
        rows = _table(base, self._data, base.scan.dataset_id, whole_rows=whole_rows)
        _check_keys(rows, keys)
        self._take(base, rows, keys)

    def _take(self, base: Base, rows: pa.Table, keys: Sequence[str]) -> None:
        assert base.definition.schema is not None
        self._source = Source(rows, keys, base.definition.schema)

    def find(self, base: Base, progress: Progress | None) -> Found:
        # Another writer may have widened a column since.
        self._take(base, _table(base, self.source.rows, base.scan.dataset_id), self.source.keys)
        matched = Matched(self.source.rows.num_rows)
        look = _Look(base.reader, self.source, matched)
        counts = self._workers.each(look, base.parts(self.source.candidates(base)), progress)
        mask = matched.mask()
        return Found(
            {path: count for path, count in counts if count}, matched.hits, mask, len(mask) - mask.true_count
        )

    def depends_on(self, base: Base) -> Callable[[str], bool]:
        return self.source.depends_on(base)

    def rewrite(
        self, base: Base, found: Found, stager: Stager, when_matched: WhenMatched, progress: Progress | None
    ) -> list[Changed]:
        parts = base.parts(found.rows)
        rewrite = Rewrite(base.reader, stager, when_matched)
        return self._workers.each(partial(rewrite, source=self.source, hits=found.hits), parts, progress)

    def insert(self, found: Found, stager: Stager) -> list[Staged]:
        return [stager.write_records(iter(self.source.unmatched(found.matched).to_batches()))]


def merge_keys(base: Base, on: Sequence[str] | None) -> list[str]:
    schema = base.definition.schema
    if schema is None:
        raise InvalidOptionError(
            f"dataset {base.scan.dataset_id!r} has no schema, so its rows cannot be compared by key: write "
            "them to a dataset with one"
        )
    names = list(base.definition.primary_key) if on is None else column_names("on", on)
    if not names:
        raise InvalidOptionError("on is missing, and the dataset has no primary key: name the key columns")
    for name in names:
        if name not in schema.names:
            hint = column_hint(name, schema.names)
            raise InvalidOptionError(f"on names {name!r}, which is no column: {hint}")
        kind = schema.field(name).type
        if any(is_kind(kind) for is_kind in _no_keys()):
            raise InvalidOptionError(f"column {name!r} is {kind}, which cannot be a key: choose another")
    return list(dict.fromkeys(names))


def _no_keys() -> tuple[Callable[[pa.DataType], bool], ...]:
    """Types by which rows cannot be looked up, or not reliably."""
    kinds = pa.types
    return kinds.is_nested, kinds.is_floating, kinds.is_null, kinds.is_string_view, kinds.is_binary_view


def _table(base: Base, data: Any, dataset_id: str, *, whole_rows: bool = False) -> pa.Table:
    """The rows as one table with those columns of the dataset that they have.

    Args:
        base: The dataset.
        data: The rows.
        dataset_id: For errors.
        whole_rows: Refuse records of which some lack a column that others have.
    """
    schema = base.definition.schema
    assert schema is not None
    data, given = peek_schema(data)
    if given is None:
        records = [record for chunk in chunks_of(data) for record in rows_of(chunk)]
        present = _present(schema, records, whole_rows=whole_rows)
        batches = [to_batch(records, present, first_row=0)]
        return pa.Table.from_batches(batches, present)
    check_columns(base.definition, given, dataset_id)
    present = pa.schema([field for field in schema if field.name in given.names])
    batches = [to_batch(chunk, present, first_row=0) for chunk in chunks_of(data)]
    return pa.Table.from_batches(batches, present)


def _present(schema: pa.Schema, records: list[Any], *, whole_rows: bool) -> pa.Schema:
    """The columns that records have: a column that none of them has keeps its values."""
    first: frozenset[str] | None = None
    names: set[str] = set()
    for row, record in enumerate(records):
        found = as_mapping(record)
        if found is None:
            return schema  # ``to_batch`` names what it is
        these = frozenset(found)
        if whole_rows and first is not None and these != first:
            column = min(these ^ first)
            raise SchemaViolationError(
                f"row {row}: some rows have a column {column!r} and others do not, so it is not known "
                "whether to keep its values or to set them to null: add it to all rows, or merge these apart",
                column=column,
            )
        first = these
        names |= these
    known = set(schema.names)
    # With an unknown column, ``to_batch`` says which ones there are.
    return schema if not records or not names <= known else pa.schema([f for f in schema if f.name in names])


def _check_keys(rows: pa.Table, keys: Sequence[str]) -> None:
    """Refuse rows without a key, and two rows with the same key, of which neither is the right one."""
    for key in keys:
        if key not in rows.column_names:
            raise SchemaViolationError(f"the rows have no column {key!r}, by which to merge them", column=key)
        if rows.column(key).null_count:
            raise SchemaViolationError(f"column {key!r}, by which rows are merged, has a null", column=key)
    groups = rows.select(list(keys)).group_by(list(keys)).aggregate([([], "count_all")])
    if groups.num_rows != rows.num_rows:
        twice = groups.filter(pc.greater(groups.column("count_all"), 1)).slice(0, 1)
        values = ", ".join(f"{key} = {twice.column(key)[0].as_py()!r}" for key in keys)
        raise SchemaViolationError(f"two rows have the same key ({values}): keep one of them", column=keys[0])


@dataclass(frozen=True, slots=True)
class _Look:
    """Looks for the keys of the source in a file. Only key columns are read."""

    reader: Scan
    source: Source
    matched: Matched

    def __call__(self, part: Part) -> tuple[str, int]:
        path = part[0].files[0].path
        tables = gathered(self.reader.of(part).read(columns=self.source.keys))
        found = [self.source.hits(table) for table in tables]
        count = sum(len(each.rows) for each in found)
        if count:
            self.matched.add(path, Hits.together(found))
        return path, count


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Stages what replaces one file, given the rows of the source that may be in it. Pickles."""

    reader: Scan
    stager: Stager
    when_matched: WhenMatched

    def __call__(self, part: Part, source: Source, hits: Mapping[str, Hits] | None = None) -> Changed:
        scan = self.reader.of(part)
        updated = _Updated(source, scan.schema()) if self.when_matched == "update" else None
        known = (hits or {}).get(part[0].files[0].path)
        kept = None
        if known is not None:
            kept = row_groups.rewrite(
                self.reader,
                part,
                self.stager,
                lambda file, first: not known.count(first, file.stats.row_count if file.stats else 0),
                lambda first, rows: _kept(known.split(rows, first), updated),
            )
        if kept is None:
            found = _looked_up(scan.rows(), source) if known is None else known.split(scan.rows())
            kept = self.stager.rewrite(_kept(found, updated))
        return Changed(kept, self.stager.rewrite(updated.batches() if updated else iter(())))


def _looked_up(batches: Iterable[pa.RecordBatch], source: Source) -> Iterator[tuple[pa.RecordBatch, Hits]]:
    for table in gathered(batches):
        hits = source.hits(table)
        yield from Hits.together([hits]).split(table.to_batches())


def _kept(found: Iterable[tuple[pa.RecordBatch, Hits]], updated: _Updated | None) -> Iterator[pa.RecordBatch]:
    """The rows that do not match; those that do are added to ``updated``."""
    for batch, hits in found:
        if updated is not None and len(hits.rows):
            updated.add(batch, hits)
        yield batch.filter(pc.invert(hits.mask)) if len(hits.rows) else batch


class _Updated:
    """The matching rows of a file with the values of the source; columns that it does not have stay."""

    def __init__(self, source: Source, schema: pa.Schema) -> None:
        self._source = source.rows
        self._schema = schema
        self._stay = [name for name in schema.names if name not in source.rows.schema.names]
        self._old: list[pa.RecordBatch] = []
        self._rows: list[Any] = []

    def add(self, batch: pa.RecordBatch, hits: Hits) -> None:
        self._rows.append(hits.rows)
        if self._stay:
            self._old.append(batch.select(self._stay).filter(hits.mask))

    def batches(self) -> Iterator[pa.RecordBatch]:
        if not self._rows:
            return iter(())
        new: Any = self._source.take(one_array(self._rows))
        old: Any = pa.Table.from_batches(self._old) if self._stay else None
        arrays = [(old if name in self._stay else new).column(name) for name in self._schema.names]
        return iter(pa.Table.from_arrays(arrays, schema=self._schema).to_batches())


def _preview(base: Base, found: Found, inserted: int, when_matched: WhenMatched) -> Change:
    removed = Removed() if when_matched == "ignore" else base.state.removed(Removes(files=tuple(found.rows)))
    gone = sum(found.rows.values()) if when_matched == "delete" else 0
    return Change("merge", None, removed, Removed(0, removed.rows - gone + inserted, 0))
