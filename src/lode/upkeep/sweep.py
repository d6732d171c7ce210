"""Find and remove leftovers of dead writers: staged files, intents and temporary files without a reference.

Sweep never removes a file that a manifest names, whatever the pointer, the layout or the id is. Nor does it
remove one that a running writer can still commit, however slow it is. See ``docs/design/commit.md``.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, overload
from warnings import warn

from lode.dataset import Dataset
from lode.errors import InvalidOptionError, InvalidPathError
from lode.runtime import REAL, Runtime
from lode.upkeep.leftovers import Leftover, Sweep
from lode.upkeep.share import ALL, shares_of
from lode.upkeep.sweep_dataset import DatasetSweeper, is_reserved
from lode.upkeep.sweep_volume import VolumeSweeper
from lode.volume import Volume

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from lode.format.paths import Layout
    from lode.store.protocol import Store
    from lode.upkeep.leftovers import Remover

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


# Deprecated in 0.2: a store and the id of a dataset.
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
    older_than: timedelta | None = None,
    dry_run: bool = True,
    progress: Callable[[int, int | None], None] | None = None,
    runtime: Runtime = REAL,
    **deprecated: Any,
) -> Sweep:
    """Find leftovers of dead writers in a dataset or a volume and, unless ``dry_run``, remove them.

    Args:
        target: A dataset or a volume.
        args: ``older_than``, by position.
        older_than: Minimum age. Nothing younger is removed, and nothing of an uncommitted snapshot that has a
            younger object. Choose more than your longest write takes.
        dry_run: Only report what would be removed, and why.
        progress: Called with (objects done, objects in all or None) now and then.
        runtime: The clock.
        deprecated: ``sweep(store, dataset, older_than, layout=…)`` still works, with a warning.
    """
    given = list(args)
    if not isinstance(target, Dataset | Volume):
        warn(
            "sweep(store, id, …) is deprecated: use lode.sweep(lode.open_dataset(id, store), older_than)",
            DeprecationWarning,
            stacklevel=2,
        )
        id = deprecated.pop("dataset", None) or (given.pop(0) if given else None)
        if not isinstance(id, str):
            raise InvalidOptionError(f"sweep needs a Dataset or a Volume, got {target!r}")
        target = Dataset(id, target, layout=deprecated.pop("layout", None))
    if older_than is None and given:
        older_than = given.pop(0)
    if given or deprecated:
        raise InvalidOptionError("sweep takes a dataset or a volume, and older_than: leave the rest out")
    return sweep_with(None, target, older_than, dry_run=dry_run, progress=progress, runtime=runtime)


def sweep_with(
    remover: Remover | None,
    target: Dataset | Volume,
    older_than: Any,
    *,
    dry_run: bool,
    progress: Callable[[int, int | None], None] | None,
    runtime: Runtime = REAL,
) -> Sweep:
    """Sweep, and let the remover remove the objects of a dataset, such as in tasks of Spark."""
    if not isinstance(older_than, timedelta):
        raise InvalidOptionError(f"older_than must be a timedelta, got {older_than!r}")
    if older_than < timedelta(0):
        raise InvalidOptionError(f"older_than is {older_than}: it must not be negative")
    limit = datetime.fromtimestamp(runtime.now_ns() / 1e9, UTC) - older_than
    if isinstance(target, Volume):
        return VolumeSweeper(target, progress, runtime).run(limit, dry_run=dry_run)
    if is_reserved(target.id, target.given_layout):
        raise InvalidPathError(
            f"dataset id {target.id!r} is reserved because other objects are below it: it cannot be swept"
        )
    # Without a layout that the caller has given, the objects of every layout are looked at.
    layout, found = target.given_layout, []
    for share in [ALL] if remover is None else shares_of(target.chain):
        sweeper = DatasetSweeper(target.store, target.id, layout, progress, runtime, remover, share)
        found.append(sweeper.run(limit, dry_run=dry_run))
    leftovers = tuple(item for each in found for item in each.leftovers)
    return Sweep(leftovers, not dry_run, {id: why for each in found for id, why in each.spared.items()})
