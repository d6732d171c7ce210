"""Give a dataset or a volume another name: copy it within its store, then drop it under the old name.

The drop is refused if another writer has committed since the copy. Then the new snapshots are copied too.
Tags that were made since are copied after the drop is committed: from then on none can be added, and none is
removed yet. A crash leaves both names, or the new one and leftovers of the old one. Calling it again finishes
it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from lode.dataset import Dataset
from lode.errors import InvalidOptionError, NoSnapshotsError, SnapshotConflictError
from lode.format.ids import shortened
from lode.read.which import ExactId
from lode.runtime import REAL, Runtime
from lode.upkeep.copy import copy, copy_tags
from lode.volume import Volume

if TYPE_CHECKING:
    from collections.abc import Callable

    from lode.read.resolve import Chain

# How often snapshots of others are copied before it is given up.
_MAX_ROUNDS: Final = 100

T = TypeVar("T", Dataset, Volume)


def rename(
    source: T,
    new_name: str,
    *,
    dry_run: bool = False,
    progress: Callable[[int, int | None], None] | None = None,
    runtime: Runtime = REAL,
) -> T:
    """Give a dataset or a volume another name in the same store. Its history and its tags are kept.

    All files are copied, since their paths have the name in them. Writers that use the old name are refused
    with ``DatasetDroppedError`` from then on.

    Args:
        source: The dataset or the volume.
        new_name: The new name. Nothing may have or have had it.
        dry_run: Only check that it can be renamed so.
        progress: Called with (bytes copied, bytes in all) now and then.
        runtime: Provides the threads.

    Returns:
        The dataset or the volume under its new name; after a dry run there is none yet.

    Raises:
        DatasetExistsError: There is another one of that name, or there was one that was dropped.
        SnapshotConflictError: Others commit all the time; both names have the data.
    """
    if not isinstance(source, (Dataset, Volume)):
        raise InvalidOptionError(f"rename takes a Dataset or a Volume, got {shortened(source)}")
    store = source.store
    head = source.chain.resolve()
    if isinstance(source, Dataset):
        renamed: Any = Dataset(new_name, store)
    else:
        length = head.manifest.total_length if head.manifest is not None else source.total_length
        renamed = Volume(new_name, store, length)
    drop = partial(
        source._drop,
        force=True,
        dry_run=False,
        progress=None,
        before_removal=lambda dropped: copy_tags(dropped, renamed.chain),
    )
    for _ in range(_MAX_ROUNDS):
        try:
            copied = copy(source, store, name=new_name, dry_run=dry_run, progress=progress, runtime=runtime)
            if not dry_run:
                drop(base=ExactId(copied.head))
        except SnapshotConflictError:
            continue  # another writer has committed since the copy
        except NoSnapshotsError:
            # The chain of a dataset that was dropped is under the layout that it had.
            dropped = source.chain.resolve().dropped
            if dropped is None or not _has(renamed.chain, dropped.parent_snapshot_id):
                raise
            if not dry_run:
                drop(base=None)  # removes what another call has left
        return renamed  # type: ignore[no-any-return]
    raise SnapshotConflictError(
        f"{source.chain.name} has new snapshots all the time, so it was not dropped; they are copied to "
        f"{new_name!r} too: stop its writers, and rename it again"
    )


def _has(chain: Chain[Any], snapshot_id: str | None) -> bool:
    return snapshot_id is not None and chain.manifest(snapshot_id) is not None
