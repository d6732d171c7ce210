"""``lode drop``: remove a dataset or a volume, with all of its snapshots."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import typer

from lode.cli.parameters import DATASET, DRY_RUN, JSON, ROOT, STORE_OPTION, VOLUME, open_root
from lode.cli.terminal import print_json, print_lines, printable, progress
from lode.errors import InvalidOptionError
from lode.units import count, size

if TYPE_CHECKING:
    from lode.change.drop import DropReport
    from lode.dataset import Dataset
    from lode.store.protocol import Store
    from lode.volume import Volume

_YES: Final[Any] = typer.Option(False, "--yes", "-y", help="Do not ask. Needed if there is no terminal.")
_FORCE: Final[Any] = typer.Option(False, "--force", help="Also if it has tags.")


def drop(
    dataset: str = DATASET,
    root: str = ROOT,
    yes: bool = _YES,
    force: bool = _FORCE,
    volume: bool = VOLUME,
    dry_run: bool = DRY_RUN,
    json: bool = JSON,
    store_option: list[str] = STORE_OPTION,
) -> None:
    """Remove a dataset: all rows, all snapshots and their files. This cannot be undone.

    Writers that have it open are refused afterwards. Run it again to finish an interrupted drop.
    """
    target = _open(dataset, open_root(root, store_option), volume=volume)
    found = target.drop(force=force, dry_run=True)
    if not dry_run:
        if not yes:
            _confirm(dataset, found)
        with progress(f"dropping {dataset}", "objects") as advance:
            found = target.drop(force=force, progress=advance)
    if json:
        numbers = {"snapshots": found.snapshots, "files": found.files, "bytes": found.bytes}
        print_json({"dataset": dataset, **numbers, "removed": found.removed})
    else:
        print_lines(f"{dataset}: {_amount(found)} {'removed' if found.removed else 'would be removed'}")


def _confirm(name: str, found: DropReport) -> None:
    if not sys.stdin.isatty():
        raise InvalidOptionError(
            f"{name} has {_amount(found)}, and there is no terminal to ask on: give --yes to remove them"
        )
    typer.confirm(printable(f"Remove {name} with {_amount(found)}?"), abort=True, err=True)


def _amount(found: DropReport) -> str:
    return f"{count(found.snapshots, 'snapshot')}, {count(found.files, 'file')}, {size(found.bytes)}"


def _open(name: str, store: Store, *, volume: bool) -> Dataset | Volume:
    """Open it, also if a drop of it was interrupted."""
    from lode.dataset import Dataset
    from lode.discover import open_volume
    from lode.errors import NotFoundError
    from lode.format.volume import MAX_VOLUME_BYTES
    from lode.volume import Volume

    if not volume:
        return Dataset(name, store)
    try:
        return open_volume(name, store)
    except NotFoundError:
        return Volume(name, store, MAX_VOLUME_BYTES)
