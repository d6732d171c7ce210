"""Replace rows by others, as one snapshot: whole partitions, everything, or what a condition selects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from lode.change.base import ChangeContext, check_redo
from lode.change.delete import preview, remove_rows
from lode.change.matching import Matching, match_rows
from lode.change.result import Change, amount
from lode.codec.columnar import to_batch
from lode.codec.protocol import has_schema
from lode.codec.records import chunks_of, is_rereadable, peek_schema
from lode.errors import InvalidOptionError, SchemaViolationError
from lode.format.manifest import Removed, Removes
from lode.format.paths import canonical_partition, partition_path
from lode.write.rebase import common_partition, partitions_of
from lode.write.removal import Removal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow.compute as pc

    from lode.change.base import Base
    from lode.codec.protocol import Chunk
    from lode.format.manifest import FileRef
    from lode.format.paths import Layout
    from lode.writes import BegunWrite, IdempotencyKey

    PartitionSpec = str | Mapping[str, Any]


def overwrite(
    context: ChangeContext,
    data: Any,
    metadata: dict[str, Any] | None,
    *,
    partitions: Sequence[PartitionSpec] | None,
    where: pc.Expression | str | None,
    everything: bool,
    idempotency_key: IdempotencyKey | None,
    on_conflict: str,
    evolve: bool,
    dry_run: bool,
    progress: Callable[[int, int | None], None] | None,
) -> Change:
    """Replace rows by ``data``. See ``Dataset.overwrite``."""
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
    if where is not None:
        replacement = _Where(context, data, where, metadata, idempotency_key, dry_run, progress)
        if redo and not is_rereadable(data):
            raise InvalidOptionError(
                'on_conflict="redo" may read the rows again, and these can be read only once: give a table '
                "or a list"
            )
        return context.repeat(replacement.attempt, lambda: Removal("overwrite"), redo=redo)
    chosen = None if partitions is None else tuple(_path(layout, each) for each in partitions)
    return _partitions(
        context,
        data,
        metadata,
        chosen,
        everything,
        idempotency_key,
        evolve=evolve,
        dry_run=dry_run,
        redo=redo,
    )


def _partitions(
    context: ChangeContext,
    data: Any,
    metadata: dict[str, Any] | None,
    chosen: tuple[str, ...] | None,
    everything: bool,
    idempotency_key: IdempotencyKey | None,
    *,
    evolve: bool,
    dry_run: bool,
    redo: bool,
) -> Change:
    """Replace whole partitions. Nothing is read, so the base is captured when the commit begins."""
    begun = context.writes.begin(metadata, idempotency_key, None, None, "raise")
    schema = None
    if has_schema(begun.components.codec):
        data, schema = peek_schema(data)

    def attempt(begun: BegunWrite) -> Change:
        removal = Removal("overwrite")
        with context.writes.transaction(begun, schema, evolve=evolve, removal=removal) as transaction:
            if transaction.replayed is not None:
                return Change.of(transaction.replayed)
            staged = transaction.stager.stage_named(data, "")
            transaction.add(staged)
            layout, id = begun.found.layout, context.handle.id
            touched = partitions_of(id, staged.files, layout)
            if everything:
                removal.partitions = ("",)
            else:
                removal.partitions = tuple(sorted(touched)) if chosen is None else chosen
                _check_inside(staged.files, removal.partitions, layout, id)
            removal.depends_on = _depends_on(removal.partitions)
            removes, states = Removes(removal.partitions), begun.found.states
            removal.count_on = lambda parent: states.fold(parent).removed(removes)
            if dry_run:
                head = begun.found.committer.settle().manifest
                removed = Removed() if head is None else removal.count_on(head)
                return Change("overwrite", None, removed, amount(staged.files, staged.row_count))
            if redo:
                transaction.follow_any()
            return Change.of(transaction.commit())

    try:
        return attempt(begun)
    except SchemaViolationError:
        # As for a write: somebody else may have changed the columns.
        newer = context.writes.with_newest_definition(begun) if is_rereadable(data) else None
        if newer is None:
            raise
    return attempt(newer)


def _depends_on(partitions: Iterable[str]) -> Callable[[str], bool]:
    replaced = frozenset(partitions)
    return lambda partition: common_partition(replaced, {partition}) is not None


def _check_inside(files: Iterable[FileRef], partitions: Iterable[str], layout: Layout, id: str) -> None:
    """Refuse rows outside of the partitions that are replaced: they would be added to others."""
    inside = [f"{canonical_partition(each)}/" for each in partitions]
    for partition in sorted(partitions_of(id, files, layout)):
        if not any(f"{canonical_partition(partition)}/".startswith(each) for each in inside):
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


class _Where:
    """Replaces the rows that a condition selects by rows that fulfil it too."""

    def __init__(
        self,
        context: ChangeContext,
        data: Any,
        where: pc.Expression | str,
        metadata: dict[str, Any] | None,
        idempotency_key: IdempotencyKey | None,
        dry_run: bool,
        progress: Callable[[int, int | None], None] | None,
    ) -> None:
        self._context = context
        self._data = data
        self._where = where
        self._metadata = metadata
        self._key = idempotency_key
        self._dry_run = dry_run
        self._progress = progress

    def attempt(self, removal: Removal) -> Change:
        base = self._context.base()
        removal.prepared_on = base.manifest.snapshot_id
        with self._context.transaction(removal, self._metadata, self._key, base) as transaction:
            if transaction.replayed is not None:
                return Change.of(transaction.replayed)
            matching = match_rows(base, self._where)
            if self._dry_run:
                return preview(base, matching, "overwrite")
            staged = transaction.stager.write_records(self._checked(base, matching))
            transaction.add(staged)
            transaction.add(*remove_rows(removal, base, matching, transaction.stager, self._progress))
            return Change.of(transaction.commit())

    def _checked(self, base: Base, matching: Matching) -> Iterator[Chunk]:
        """The new rows; one that the condition does not select would stay when this is run again."""
        if base.definition.columns is None:
            raise InvalidOptionError(
                f"dataset {base.scan.dataset_id!r} has no schema to check where=… by: overwrite partitions "
                "instead"
            )
        row = 0
        for chunk in chunks_of(self._data):
            batch = to_batch(chunk, matching.schema, first_row=row)
            selected = matching.condition.apply(batch).num_rows
            if selected != batch.num_rows:
                raise SchemaViolationError(
                    f"{batch.num_rows - selected} of rows {row} to {row + batch.num_rows - 1} do not fulfil "
                    "where: overwriting them again would double them; filter them first"
                )
            row += batch.num_rows
            yield batch
