"""Return to an earlier state, by naming its snapshot. No file is copied."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from lode.change.result import Change
from lode.definition import REMOVALS
from lode.errors import SnapshotConflictError
from lode.format.manifest import Removed, Removes, check_metadata
from lode.read.resolve import Head
from lode.snapshot import Snapshot
from lode.write.removal import Removal

if TYPE_CHECKING:
    from lode.change.base import ChangeContext
    from lode.definition import Definition
    from lode.reads import SnapshotRef


def restore(
    context: ChangeContext, snapshot: SnapshotRef, metadata: dict[str, Any] | None, *, dry_run: bool
) -> Change:
    """Make the files and columns of an earlier snapshot the present ones. See ``Dataset.restore``."""
    clean = check_metadata(metadata)
    base = context.base()
    found = base.found
    target = context.reads.readable(snapshot)
    then = found.definitions.at(target)
    before, after = base.state, found.states.fold(target)
    removed, added = (
        _difference(before.paths, after.paths, before),
        _difference(after.paths, before.paths, after),
    )
    if dry_run:
        return Change("restore", None, removed, added)
    removal = Removal("restore", restores=target.snapshot_id, removed=removed)
    removal.restored_sequence = found.chain.sequence_of(target)
    # The snapshot that was looked at: rows that others have changed since are a conflict.
    head = Head(base.manifest.snapshot_id.encode(), base.manifest)
    if context.handle.define(found, head, base.definition):
        head = found.committer.capture()
        if head.manifest is None or head.manifest.parent_snapshot_id != base.manifest.snapshot_id:
            raise SnapshotConflictError(
                f"dataset {context.handle.id!r}: others wrote while it was restored; nothing was restored"
            )
    committed = context.handle.commit_definition(
        found, head, base.definition, clean, "restore", partial(_restored, then=then), removal
    )
    context.handle.follow_stored_schema()
    return Change("restore", Snapshot(committed.manifest, committed.commit), removed, added)


def _difference(these: set[str], those: set[str], state: Any) -> Removed:
    removed: Removed = state.removed(Removes(files=tuple(these - those)))
    return removed


def _restored(now: Definition, then: Definition) -> Definition:
    """The columns of then. Their ids are never given to other columns."""
    return msgspec.structs.replace(
        then,
        last_column_id=max(now.last_column_id, then.last_column_id),
        features=tuple(dict.fromkeys((*now.features, *then.features, REMOVALS))),
        description=now.description,
        properties=now.properties,
    )
