"""Return to an earlier state, by naming its snapshot. No file is copied."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from lode.change.result import Change
from lode.definition import REMOVALS
from lode.errors import NotFoundError, SnapshotConflictError
from lode.format.manifest import MAX_SEQUENCE, Removed, Removes, check_metadata
from lode.read.resolve import Head
from lode.write.removal import Removal
from lode.write.tags import put_tag, remove_tag

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lode.change.base import Base, ChangeContext
    from lode.definition import Definition
    from lode.format.manifest import Manifest
    from lode.handle import FoundDataset
    from lode.reads import SnapshotRef
    from lode.snapshot import Snapshot


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
    with _kept(context, found, target) as sequence:
        removal = Removal("restore", restores=target.snapshot_id, removed=removed, restored_sequence=sequence)
        made = _commit(context, base, then, clean, removal)
    context.handle.follow_stored_schema()
    return Change("restore", made, removed, added)


@contextmanager
def _kept(context: ChangeContext, found: FoundDataset, target: Manifest) -> Iterator[int]:
    """Make sure that no expiry removes the files of a snapshot before its restore is committed.

    Snapshots from the floor on need nothing: a floor is a commit too. An expired one is readable because of a
    tag, which may be removed meanwhile. So it gets another one. It is put while the first is there, and
    removed when the restore keeps the files; an expiry reads the tags before it reads the head. If the
    outcome is not known, it stays.

    Yields:
        The place in history that the commit compares with the floor.
    """
    sequence = found.chain.sequence_of(target)
    if sequence >= context.reads.floor():
        yield sequence
        return
    runtime = context.handle.runtime
    name = f"restoring-{runtime.random_bits(64):016x}"
    put_tag(found.chain, name, target, context.reads.floor, runtime.now_ns, dry_run=False)
    conflict: SnapshotConflictError | None = None
    try:
        yield MAX_SEQUENCE
    except SnapshotConflictError as error:
        conflict = error
    with suppress(NotFoundError):  # another process has removed it
        remove_tag(found.chain, name, dry_run=False)
    if conflict is not None:
        raise conflict


def _commit(
    context: ChangeContext, base: Base, then: Definition, metadata: dict[str, Any], removal: Removal
) -> Snapshot:
    found = base.found
    # The snapshot that was looked at: rows that others have changed since are a conflict.
    head = Head(base.manifest.snapshot_id.encode(), base.manifest)
    if context.handle.define(found, head, base.definition):
        head = found.committer.capture()
        if head.manifest is None or head.manifest.parent_snapshot_id != base.manifest.snapshot_id:
            raise SnapshotConflictError(
                f"dataset {context.handle.id!r}: others wrote while it was restored; nothing was restored"
            )
    return context.handle.commit_definition(
        found, head, base.definition, metadata, "restore", partial(_restored, then=then), removal
    )


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
