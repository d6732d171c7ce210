"""Find and remove leftovers of dead writers: staged files, intents and temporary files without a reference.

Sweep never removes a file that a manifest names, whatever the pointer, the layout or the id is. Nor does it
remove one that a running writer can still commit, however slow it is. See ``docs/design/commit.md``.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, overload

from lode.dataset import Dataset
from lode.errors import InvalidOptionError, InvalidPathError
from lode.format.ids import check_id
from lode.runtime import REAL, Runtime
from lode.store.open import open_store
from lode.upkeep.leftovers import Leftover, Sweep
from lode.upkeep.sweep_dataset import DatasetSweeper, is_reserved
from lode.upkeep.sweep_volume import VolumeSweeper
from lode.volume import Volume

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from lode.format.paths import Layout
    from lode.store.protocol import Store

__all__ = ["Leftover", "Sweep", "sweep"]


@overload
def sweep(
    target: Dataset | Volume,
    older_than: timedelta,
    *,
    dry_run: bool = True,
    progress: Callable[[int, int | None], None] | None = None,
    runtime: Runtime = REAL,
) -> Sweep: ...


@overload
def sweep(
    target: str | os.PathLike[str] | Store,
    dataset: str,
    older_than: timedelta,
    *,
    dry_run: bool = True,
    layout: Layout | None = None,
    progress: Callable[[int, int | None], None] | None = None,
    runtime: Runtime = REAL,
) -> Sweep: ...


def sweep(
    target: Any,
    *args: Any,
    dataset: str | None = None,
    older_than: timedelta | None = None,
    dry_run: bool = True,
    layout: Layout | None = None,
    progress: Callable[[int, int | None], None] | None = None,
    runtime: Runtime = REAL,
) -> Sweep:
    """Find leftovers of dead writers in a dataset or a volume and, unless ``dry_run``, remove them.

    Args:
        target: A dataset or a volume; or a URL, a path or a store, followed by a dataset's id.
        args: The same as the next two, by position.
        dataset: The dataset's id, if the target is a store.
        older_than: Minimum age. Nothing younger is removed, and nothing of an uncommitted snapshot that has a
            younger object. Choose more than your longest write takes.
        dry_run: Only report what would be removed, and why.
        layout: The layout of the dataset, if the target is a store; detected if not given.
        progress: Called with (objects done, objects in all or None) now and then.
        runtime: The clock.
    """
    given = list(args)
    if not isinstance(target, Dataset | Volume):
        dataset = given.pop(0) if dataset is None and given else dataset
        if not isinstance(dataset, str):
            raise InvalidOptionError(f"name a dataset of {target!r} to sweep, or give a Dataset or a Volume")
    elif dataset is not None or layout is not None:
        raise InvalidOptionError("a Dataset or a Volume has its own id and layout: leave them out")
    older_than = given.pop(0) if older_than is None and given else older_than
    if given or not isinstance(older_than, timedelta):
        raise InvalidOptionError(f"older_than must be one timedelta, got {(given or [older_than])[0]!r}")
    if older_than < timedelta(0):
        raise InvalidOptionError(f"older_than is {older_than}: it must not be negative")
    limit = datetime.fromtimestamp(runtime.now_ns() / 1e9, UTC) - older_than

    if isinstance(target, Volume):
        return VolumeSweeper(target, progress, runtime).run(limit, dry_run=dry_run)
    if isinstance(target, Dataset):
        dataset, layout = target.id, target.layout
    if is_reserved(check_id(dataset or "", kind="dataset"), layout):
        raise InvalidPathError(
            f"dataset id {dataset!r} is reserved, because other objects are below it: it cannot be swept"
        )
    store = target.store if isinstance(target, Dataset) else open_store(target)
    sweeper = DatasetSweeper(store, dataset or "", layout, progress, runtime)
    return sweeper.run(limit, dry_run=dry_run)
