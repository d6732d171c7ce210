"""Replace rows by others, as one snapshot: whole partitions, everything, or what a condition selects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from lode.change.base import MAX_REDOS, ChangeContext, check_redo
from lode.change.delete import preview, remove_rows
from lode.change.matching import match_rows
from lode.change.result import Change, amount
from lode.codec.columnar import to_batch
from lode.codec.protocol import has_schema
from lode.codec.records import chunks_of, is_rereadable, peek_schema
from lode.errors import InvalidOptionError, SchemaViolationError, SnapshotConflictError
from lode.format.manifest import Removed, Removes
from lode.format.paths import canonical_partition, enclosing, partition_path
from lode.write.rebase import overlapping, partitions_of
from lode.write.removal import Removal, nowhere

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    import pyarrow.compute as pc

    from lode.change.base import Base, Progress
    from lode.codec.protocol import Chunk, Codec
    from lode.filter import Filter
    from lode.format.manifest import FileRef, Manifest
    from lode.format.paths import Layout
    from lode.write.stage import Staged
    from lode.write.transaction import Transaction
    from lode.writes import BegunWrite, IdempotencyKey

    PartitionSpec = str | Mapping[str, Any]


class NewRows(Protocol):
    """The rows that replace others: data in this process, a frame of Spark, or files staged by tasks."""

    @property
    def can_repeat(self) -> bool:
        """Whether they can be staged a second time."""

    def schema(self, codec: Codec | None) -> pa.Schema | None:
        """Their columns, if they are known."""

    def begin(
        self,
        context: ChangeContext,
        metadata: dict[str, Any] | None,
        idempotency_key: IdempotencyKey | None,
        base: Base | None,
    ) -> BegunWrite:
        """Begin the write."""
        if base is not None:
            return context.begin(metadata, idempotency_key, base)
        return context.writes.begin(metadata, idempotency_key, None, None, "raise")

    def stage(self, transaction: Transaction, check: Fulfils | None) -> list[Staged]:
        """Stage them; ``check`` refuses rows that a condition does not select."""


class LocalRows(NewRows):
    """Rows in this process."""

    def __init__(self, data: Any) -> None:
        self._data = data

    @property
    def can_repeat(self) -> bool:
        return is_rereadable(self._data)

    def schema(self, codec: Codec | None) -> pa.Schema | None:
        if not has_schema(codec):
            return None
        self._data, schema = peek_schema(self._data)
        return schema

    def stage(self, transaction: Transaction, check: Fulfils | None) -> list[Staged]:
        if check is None:
            return [transaction.stager.stage_named(self._data, "")]
        return [transaction.stager.write_records(check(chunks_of(self._data)))]


@dataclass(frozen=True, slots=True)
class Fulfils:
    """Passes rows that a condition selects, and refuses others: they would stay when this is run again."""

    condition: Filter
    schema: pa.Schema

    def __call__(self, chunks: Iterable[Chunk]) -> Iterator[pa.RecordBatch]:
        row = 0
        for chunk in chunks:
            batch = to_batch(chunk, self.schema, first_row=row)
            selected = self.condition.apply(batch).num_rows
            if selected != batch.num_rows:
                raise SchemaViolationError(
                    f"{batch.num_rows - selected} of rows {row} to {row + batch.num_rows - 1} do not fulfil "
                    "where: overwriting them again would double them; filter them first"
                )
            row += batch.num_rows
            yield batch


def check_has_schema(base: Base) -> None:
    """Refuse a condition on rows without a schema to check new rows by."""
    if base.definition.columns is None:
        raise InvalidOptionError(
            f"dataset {base.scan.dataset_id!r} has no schema to check where=… by: overwrite partitions "
            "instead"
        )


def overwrite(
    context: ChangeContext,
    rows: NewRows,
    metadata: dict[str, Any] | None,
    *,
    partitions: Sequence[PartitionSpec] | None,
    where: pc.Expression | str | None,
    everything: bool,
    idempotency_key: IdempotencyKey | None,
    on_conflict: str,
    evolve: bool,
    dry_run: bool,
    progress: Progress | None,
    base: Manifest | None = None,
) -> Change:
    """Replace rows by others. See ``Dataset.overwrite``.

    ``base`` is the snapshot whose rows ``where`` replaces. Default: the newest one now.
    """
    redo = check_redo(on_conflict)
    if not isinstance(everything, bool):
        raise InvalidOptionError(f"everything is {everything!r}: it must be True or False")
    if partitions is not None and (isinstance(partitions, str) or not isinstance(partitions, Iterable)):
        raise InvalidOptionError(f"partitions is {partitions!r}: give a list, such as ['day=mon']")
    if sum((partitions is not None, where is not None, everything)) > 1:
        raise InvalidOptionError("partitions, where and everything exclude each other: give one of them")
    layout = context.handle.find().layout
    if partitions is None and where is None and not everything and not layout.keys:
        raise InvalidOptionError(
            f"dataset {context.handle.id!r} is not partitioned, so overwriting would replace all of it: pass "
            "everything=True, or where=… for a part of it"
        )
    call = _Overwrite(context, rows, metadata, idempotency_key, evolve, dry_run, redo, progress)
    if where is not None:
        return call.where(where, context.base(base))
    chosen = None if partitions is None else tuple(_path(layout, each) for each in partitions)
    return call.partitions(chosen, everything=everything)


@dataclass(frozen=True, slots=True)
class _Overwrite:
    """One call of ``overwrite``, with its arguments checked."""

    context: ChangeContext
    rows: NewRows
    metadata: dict[str, Any] | None
    idempotency_key: IdempotencyKey | None
    evolve: bool
    dry_run: bool
    redo: bool
    progress: Progress | None

    def partitions(self, chosen: tuple[str, ...] | None, *, everything: bool) -> Change:
        """Replace whole partitions. Nothing is read, so the base is captured when the commit begins."""
        context = self.context
        begun = self.rows.begin(context, self.metadata, self.idempotency_key, None)
        schema = self.rows.schema(begun.components.codec)

        def attempt(begun: BegunWrite) -> Change:
            removal = Removal("overwrite")
            with context.transaction(begun, removal, schema, evolve=self.evolve, keep=True) as transaction:
                if transaction.replayed is not None:
                    return Change.of(transaction.replayed)
                staged = self.rows.stage(transaction, None)
                transaction.add(*staged)
                files = [file for part in staged for file in part.files]
                layout, id = begun.found.layout, context.handle.id
                if everything:
                    removal.partitions = ("",)
                else:
                    touched = partitions_of(id, files, layout)
                    removal.partitions = tuple(sorted(touched)) if chosen is None else chosen
                    _check_inside(files, removal.partitions, layout, id)
                removal.depends_on = overlapping(frozenset(removal.partitions))
                removes, states = Removes(removal.partitions), begun.found.states
                removal.count_on = lambda parent: states.fold(parent).removed(removes)
                if self.dry_run:
                    head = begun.found.committer.settle().manifest
                    removed = Removed() if head is None else removal.count_on(head)
                    added = amount(files, sum(part.row_count for part in staged))
                    return Change("overwrite", None, removed, added)
                if self.redo:
                    transaction.follow_any()
                return context.commit(transaction)

        try:
            return attempt(begun)
        except SchemaViolationError:
            # As for a write: another writer may have changed the columns.
            newer = context.writes.with_newest_definition(begun) if self.rows.can_repeat else None
            if newer is None:
                raise
        return attempt(newer)

    def where(self, where: pc.Expression | str, base: Base) -> Change:
        """Replace the rows that a condition selects by rows that fulfil it too.

        The new rows are staged once: they may be readable only once. After a conflict only files of the
        dataset are rewritten again, unless other writers have changed the columns.
        """
        check_has_schema(base)
        context, workers = self.context, self.context.workers
        removal = Removal("overwrite", prepared_on=base.manifest.snapshot_id)
        begun = self.rows.begin(context, self.metadata, self.idempotency_key, base)
        schema = self.rows.schema(begun.components.codec)
        with context.transaction(begun, removal, schema, evolve=self.evolve) as transaction:
            if transaction.replayed is not None:
                return Change.of(transaction.replayed)
            matching = match_rows(base, where, workers)
            if self.dry_run:
                return preview(base, matching, "overwrite")
            columns = getattr(transaction.stager.components.codec, "schema", None) or matching.schema
            transaction.add(*self.rows.stage(transaction, Fulfils(matching.condition, columns)))
            for remaining in reversed(range(MAX_REDOS)):
                kept = remove_rows(removal, base, matching, transaction.stager, workers, self.progress)
                transaction.add(*kept)
                try:
                    return context.commit(transaction)
                except SnapshotConflictError:
                    if not remaining or not (self.redo or removal.superseded):
                        raise
                    newest = context.base()
                    if newest.definition.columns != base.definition.columns:
                        if self.rows.can_repeat:
                            transaction.abort()
                            return self.where(where, newest)
                        if self.evolve:
                            raise  # nothing says which columns only these rows have
                        # What is kept has the columns of now. The commit checks whether the new rows, which
                        # were staged for those of then, still fit.
                        stager = context.stager_of(newest, transaction.snapshot_id)
                        transaction.take_over(stager, newest.definition)
                    base = newest
                matching = match_rows(base, where, workers)
                removal.clear(base.manifest.snapshot_id)
                transaction.prepare_again(base.manifest, dropped=kept)
        raise AssertionError("the last attempt returns or raises")


def replacing(begun: BegunWrite, partitions: Sequence[str]) -> Removal:
    """Whole partitions, or everything for ``""``, that a transaction replaces, whatever others commit."""
    removes, states = Removes(tuple(partitions)), begun.found.states
    return Removal(
        "overwrite",
        removes.partitions,
        depends_on=nowhere,
        count_on=lambda parent: states.fold(parent).removed(removes),
    )


def _check_inside(files: Iterable[FileRef], partitions: Iterable[str], layout: Layout, id: str) -> None:
    """Refuse rows outside of the partitions that are replaced: they would be added to others."""
    replaced = frozenset(map(canonical_partition, partitions))
    for partition in sorted(partitions_of(id, files, layout)):
        if replaced.isdisjoint(enclosing(canonical_partition(partition))):
            raise InvalidOptionError(
                f"rows of partition {partition} are outside of the partitions to overwrite: add it to "
                "partitions=…"
            )


def _path(layout: Layout, given: PartitionSpec) -> str:
    """The path of a partition that is given as a path or by its values, outer keys first."""
    if not layout.keys:
        raise InvalidOptionError("the dataset is not partitioned: pass everything=True or where=…")
    if isinstance(given, Mapping):
        keys = layout.keys[: len(given)]
        if not given or set(keys) != set(given):
            raise InvalidOptionError(
                f"partition {given!r} must have values for {', '.join(layout.keys)}, or for the first of them"
            )
        return partition_path(keys, [given[key] for key in keys])
    keys = tuple(part.partition("=")[0] for part in given.split("/")) if isinstance(given, str) else ()
    if not keys or keys != layout.keys[: len(keys)] or not all("=" in part for part in given.split("/")):
        raise InvalidOptionError(
            f"partition {given!r} is not one of this dataset: write it as "
            f"{'/'.join(f'{key}=…' for key in layout.keys)!r} or as a dict"
        )
    return given
