"""Delete rows: whole files where partition and statistics decide, else files are rewritten without them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lode.change.base import Base, ChangeContext, check_redo
from lode.change.matching import Matching, match_rows, may_match
from lode.change.result import Change
from lode.format.manifest import Removed, Removes
from lode.write.parallel import pipelined
from lode.write.removal import Removal

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    import pyarrow.compute as pc

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
    progress: Callable[[int, int | None], None] | None,
) -> Change:
    """Remove the rows for which ``where`` is true. See ``Dataset.delete``."""
    redo = check_redo(on_conflict)

    def attempt(removal: Removal) -> Change:
        base = context.base()
        removal.prepared_on = base.manifest.snapshot_id
        if dry_run:
            return preview(base, match_rows(base, where), "delete")
        with context.transaction(removal, metadata, idempotency_key, base) as transaction:
            if transaction.replayed is not None:
                return Change.of(transaction.replayed)
            matching = match_rows(base, where)
            if not matching.paths:
                return Change("delete")
            transaction.add(*remove_rows(removal, base, matching, transaction.stager, progress))
            return Change.of(transaction.commit())

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
    progress: Callable[[int, int | None], None] | None,
) -> list[Staged]:
    """Stage what is kept of the files with some matching rows, and record what is removed."""
    staged = rewrite_each(base, matching.some, stager, matching.keep, progress)
    removal.files |= matching.paths
    removal.carried += tuple(file.path for part in staged for file in part.files)
    removal.removed = base.state.removed(Removes(files=tuple(removal.files)))
    removal.depends_on = may_match(matching.condition, matching.schema)
    return staged


def rewrite_each(
    base: Base,
    paths: Collection[str],
    stager: Stager,
    keep: Callable[[Scan], Iterable[Any]],
    progress: Callable[[int, int | None], None] | None,
) -> list[Staged]:
    """Rewrite files one by one, a few at a time."""
    total, done = len(paths), 0

    def rewrite(item: tuple[FileRef, Scan]) -> Staged:
        nonlocal done
        staged = stager.write_records(keep(item[1]), serial=True)
        done += 1
        if progress is not None:
            progress(done, total)
        return staged

    return pipelined(rewrite, base.one_by_one(paths))
