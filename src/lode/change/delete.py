"""Delete rows: whole files where partition and statistics decide, else files are rewritten without them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lode.change import row_groups
from lode.change.base import Base, ChangeContext, Part, Workers, check_redo
from lode.change.matching import Matching, match_rows, may_match
from lode.change.result import Change
from lode.format.manifest import Removed, Removes
from lode.read.prune import can_match
from lode.write.removal import Removal

if TYPE_CHECKING:
    import pyarrow.compute as pc

    from lode.change.base import Progress
    from lode.format.manifest import FileRef
    from lode.read.scan import Scan
    from lode.write.stage import Staged, Stager
    from lode.writes import IdempotencyKey


def delete(
    context: ChangeContext,
    where: pc.Expression | str,
    metadata: dict[str, Any] | None,
    *,
    idempotency_key: IdempotencyKey | None,
    on_conflict: str,
    dry_run: bool,
    progress: Progress | None,
) -> Change:
    """Remove the rows for which ``where`` is true. See ``Dataset.delete``."""
    redo = check_redo(on_conflict)

    def attempt(removal: Removal) -> Change:
        base = context.base()
        removal.prepared_on = base.manifest.snapshot_id
        if dry_run:
            return preview(base, match_rows(base, where, context.workers), "delete")
        with context.transaction(context.begin(metadata, idempotency_key, base), removal) as transaction:
            if transaction.replayed is not None:
                return Change.of(transaction.replayed)
            matching = match_rows(base, where, context.workers)
            if not matching.paths:
                return Change("delete")
            stager = transaction.stager
            transaction.add(*remove_rows(removal, base, matching, stager, context.workers, progress))
            return context.commit(transaction)

    return context.repeat(attempt, lambda: Removal("delete"), redo=redo)


def preview(base: Base, matching: Matching, operation: str) -> Change:
    """What removing these rows would do, without the files that would be written."""
    removed = base.state.removed(Removes(files=tuple(matching.paths)))
    kept = base.state.removed(Removes(files=tuple(matching.some)))
    return Change(
        operation, None, removed, Removed(len(matching.some), kept.rows - sum(matching.some.values()), 0)
    )


def remove_rows(
    removal: Removal,
    base: Base,
    matching: Matching,
    stager: Stager,
    workers: Workers,
    progress: Progress | None,
) -> list[Staged]:
    """Stage what is kept of the files with some matching rows, and record what is removed."""
    parts = base.parts(matching.some)
    rewrite = _Rewrite(base.reader, matching.without_files(), stager)
    staged = workers.each(rewrite, parts, progress)
    removal.files |= matching.paths
    removal.carried += tuple(file.path for part in staged for file in part.files)
    removal.removed = base.state.removed(Removes(files=tuple(removal.files)))
    removal.depends_on = may_match(matching.condition, matching.schema)
    return staged


@dataclass(frozen=True, slots=True)
class _Rewrite:
    """Stages the rows of a file for which a condition is not true."""

    reader: Scan
    matching: Matching
    stager: Stager

    def __call__(self, part: Part) -> Staged:
        matching = self.matching
        found = row_groups.rewrite(
            self.reader, part, self.stager, self._stays, lambda _, rows: map(matching.rest, rows)
        )
        return found or self.stager.rewrite(matching.keep(self.reader.of(part)))

    def _stays(self, file: FileRef, first_row: int) -> bool:
        """Whether the statistics of a row group say that no row of it matches."""
        partition = self.reader.layout.partition_of(self.reader.dataset_id, file.path)
        return self.matching.condition.fits_row_groups and not can_match(
            file, partition, self.matching.schema, self.matching.condition.where
        )
