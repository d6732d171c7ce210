"""Merge rows by their keys: update, delete or keep those that match, and insert the others."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, get_args

from lode.change.base import Base, ChangeContext, Part, Workers, check_redo
from lode.change.result import Change
from lode.codec.coerce import as_mapping
from lode.codec.columnar import to_batch
from lode.codec.protocol import rows_of
from lode.codec.records import chunks_of, peek_schema
from lode.codec.stats import from_json_value
from lode.errors import InvalidOptionError, SchemaViolationError
from lode.evolution import check_columns, column_names
from lode.format.manifest import Removed, Removes
from lode.lazy import pa
from lode.near import column_hint
from lode.write.partition import split
from lode.write.rebase import common_partition
from lode.write.removal import Removal, everywhere

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from lode.change.base import Progress
    from lode.format.manifest import FileRef
    from lode.read.scan import Scan
    from lode.write.stage import Staged, Stager
    from lode.writes import IdempotencyKey

WhenMatched: TypeAlias = Literal["update", "ignore", "delete"]
WhenNotMatched: TypeAlias = Literal["insert", "ignore"]

_ROW: Final = "__row"
_PLACE: Final = "__place"
# Arrow data of a file whose keys are looked up together.
_LOOKUP_BYTES: Final = 16 << 20


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
        self,
        base: Base,
        found: Found,
        stager: Stager,
        when_matched: WhenMatched,
        progress: Progress | None,
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
    # Rows of the source that match, if they are in this process; and the number of those that do not.
    matched: set[int] = field(default_factory=set)
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
        found = Found(missing=self.source.rows.num_rows)
        candidates = self.source.candidates(base)
        look = _Look(base.reader, self.source)
        for path, count, rows in self._workers.each(look, base.parts(candidates), progress):
            if count:
                found.rows[path] = count
                found.matched |= rows
        found.missing -= len(found.matched)
        return found

    def depends_on(self, base: Base) -> Callable[[str], bool]:
        return self.source.depends_on(base)

    def rewrite(
        self,
        base: Base,
        found: Found,
        stager: Stager,
        when_matched: WhenMatched,
        progress: Progress | None,
    ) -> list[Changed]:
        rewrite = Rewrite(base.reader, stager, when_matched)
        return self._workers.each(partial(rewrite, source=self.source), base.parts(found.rows), progress)

    def insert(self, found: Found, stager: Stager) -> list[Staged]:
        return [stager.write_records(iter(self.source.unmatched(found).to_batches()))]


class Source:
    """The rows to merge, looked up by their keys."""

    def __init__(self, rows: pa.Table, keys: Sequence[str], schema: pa.Schema) -> None:
        self.rows = rows
        self.keys = list(keys)
        self.schema = schema
        numbers = pa.array(range(rows.num_rows), pa.int64())
        plain = [_plain(rows.column(key).combine_chunks()) for key in self.keys]
        self._numbered = pa.Table.from_arrays([*plain, numbers], names=[*self.keys, _ROW])
        self._single: Any = plain[0] if len(plain) == 1 else None

    def lookup(self, rows: pa.Table) -> Any:
        """For each row, the number of the source row with the same keys, or null.

        The keys of the source are hashed each time, so it is called with many rows.
        """
        import pyarrow.compute as pc

        columns = [_plain(rows.column(key)) for key in self.keys]
        if self._single is not None:
            return pc.index_in(columns[0], value_set=self._single, skip_nulls=True)
        places = pa.array(range(rows.num_rows), pa.int64())
        left = pa.Table.from_arrays([*columns, places], names=[*self.keys, _PLACE])
        return left.join(self._numbered, self.keys, join_type="left outer").sort_by(_PLACE).column(_ROW)

    def unmatched(self, found: Found) -> pa.Table:
        """The source rows that the dataset does not have."""
        if not found.matched:
            return self.rows
        missing = [row for row in range(self.rows.num_rows) if row not in found.matched]
        return self.rows.take(pa.array(missing, pa.int64()))

    def candidates(self, base: Base) -> list[str]:
        """The files that may have one of the keys."""
        if not self.rows.num_rows:
            return []
        return [file.path for file, _ in base.scan.files_with_names() if self.may_be_in(file)]

    def depends_on(self, base: Base) -> Callable[[str], bool]:
        """The partitions that can have the keys: those of the rows if partition keys are keys, else all."""
        partition_keys = base.definition.keys
        if not partition_keys or not set(partition_keys) <= set(self.keys):
            return everywhere
        touched = {
            partition for batch in self.rows.to_batches() for partition, _ in split(batch, partition_keys)
        }
        return lambda partition: common_partition(touched, {partition}) is not None

    def may_be_in(self, file: FileRef) -> bool:
        """Whether the statistics of a file leave room for one of the keys."""
        import pyarrow.compute as pc

        if file.stats is None:
            return True
        if not file.stats.row_count:
            return False
        mask: Any = None
        for column in file.stats.columns:
            if column.name not in self.keys or column.min is None or column.max is None:
                continue
            kind = self.schema.field(column.name).type
            if pa.types.is_floating(kind):
                continue
            try:
                low = pa.scalar(from_json_value(column.min, kind), kind)
                high = pa.scalar(from_json_value(column.max, kind), kind)
            except (pa.ArrowException, ValueError, TypeError):
                continue
            values = self.rows.column(column.name)
            compute: Any = pc
            within = compute.and_(compute.greater_equal(values, low), compute.less_equal(values, high))
            mask = within if mask is None else compute.and_(mask, within)
        return mask is None or bool(pc.any(mask).as_py())


def _plain(array: Any) -> Any:
    """An array of a type by which pyarrow can look up."""
    return array.cast(array.type.value_type) if isinstance(array.type, pa.DictionaryType) else array


def gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Batches as tables that are large enough to look up their keys together."""
    group: list[pa.RecordBatch] = []
    held = 0
    for batch in batches:
        group.append(batch)
        held += batch.get_total_buffer_size()
        if held >= _LOOKUP_BYTES:
            yield pa.Table.from_batches(group)
            group, held = [], 0
    if group:
        yield pa.Table.from_batches(group)


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
    """Refuse rows without a key, and two rows with the same key: which of them counts is not said."""
    for key in keys:
        if key not in rows.column_names:
            raise SchemaViolationError(f"the rows have no column {key!r}, by which to merge them", column=key)
        if rows.column(key).null_count:
            raise SchemaViolationError(f"column {key!r}, by which rows are merged, has a null", column=key)
    groups = rows.select(list(keys)).group_by(list(keys)).aggregate([([], "count_all")])
    if groups.num_rows != rows.num_rows:
        import pyarrow.compute as pc

        compute: Any = pc
        twice = groups.filter(compute.greater(groups.column("count_all"), 1)).slice(0, 1)
        values = ", ".join(f"{key} = {twice.column(key)[0].as_py()!r}" for key in keys)
        raise SchemaViolationError(f"two rows have the same key ({values}): keep one of them", column=keys[0])


@dataclass(frozen=True, slots=True)
class _Look:
    """Looks for the keys of the source in a file. Only key columns are read."""

    reader: Scan
    source: Source

    def __call__(self, part: Part) -> tuple[str, int, set[int]]:
        rows: set[int] = set()
        count = 0
        for table in gathered(self.reader.of(part).read(columns=self.source.keys)):
            places = self.source.lookup(table).drop_null()
            count += len(places)
            rows.update(places.to_pylist())
        return part[0].files[0].path, count, rows


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Stages what replaces one file, given the rows of the source that may be in it. Pickles."""

    reader: Scan
    stager: Stager
    when_matched: WhenMatched

    def __call__(self, part: Part, source: Source) -> Changed:
        updated: list[pa.RecordBatch] = []
        scan = self.reader.of(part)
        kept = self.stager.rewrite(_kept(scan, source, updated, self.when_matched))
        return Changed(kept, self.stager.rewrite(iter(updated)))


def _kept(
    scan: Scan, source: Source, updated: list[pa.RecordBatch], when_matched: WhenMatched
) -> Iterator[pa.RecordBatch]:
    """The rows that do not match; those that do are put into ``updated`` with their new values."""
    import pyarrow.compute as pc

    for table in gathered(scan.rows()):
        places = source.lookup(table)
        if when_matched == "update" and len(places) > places.null_count:
            updated += _updated(table, places, source).to_batches()
        yield from table.filter(pc.is_null(places)).to_batches()


def _updated(table: pa.Table, places: Any, source: Source) -> pa.Table:
    """The matching rows with the values of the source; columns that it does not have stay."""
    import pyarrow.compute as pc

    old = table.filter(pc.is_valid(places))
    new = source.rows.take(places.drop_null())
    arrays = [(new if name in new.schema.names else old).column(name) for name in table.schema.names]
    return pa.Table.from_arrays(arrays, schema=table.schema)


def _preview(base: Base, found: Found, inserted: int, when_matched: WhenMatched) -> Change:
    removed = Removed() if when_matched == "ignore" else base.state.removed(Removes(files=tuple(found.rows)))
    gone = sum(found.rows.values()) if when_matched == "delete" else 0
    return Change("merge", None, removed, Removed(0, removed.rows - gone + inserted, 0))
