"""``lode sweep``: what dead writers left behind."""

from __future__ import annotations

from typing import Any, Final

import typer

from lode.cli.listing import Listing
from lode.cli.parameters import DATASET, JSON, ROOT, STORE_OPTION, VOLUME
from lode.cli.terminal import as_json, show
from lode.units import age, count, size

_OLDER: Final[Any] = typer.Option(
    "1d", "--older-than", metavar="TIME", help="Touch nothing younger; longer than your min_age write takes."
)
_DELETE: Final[Any] = typer.Option(False, "--delete", help="Remove it; without this it is only listed.")


def sweep(
    dataset: str = DATASET,
    root: str = ROOT,
    older_than: str = _OLDER,
    delete: bool = _DELETE,
    volume: bool = VOLUME,
    json: bool = JSON,
    store_option: list[str] = STORE_OPTION,
) -> None:
    """List what dead writers left, or --delete it."""
    from lode.cli.progress import progress
    from lode.cli.root import open_root
    from lode.discover import open_damaged, open_damaged_volume
    from lode.upkeep.sweep import sweep as clean

    min_age = age(older_than)
    store = open_root(root, store_option)
    target = open_damaged_volume(dataset, store) if volume else open_damaged(dataset, store)
    with progress(f"sweeping {dataset}", "objects") as advance:
        found = clean(target, min_age, dry_run=not delete, progress=advance)
    if json:
        summary = {"dataset": dataset, "removed": found.removed, "bytes": found.bytes}
        as_json({**summary, "leftovers": found.leftovers, "spared": found.spared})
        return
    what = f"{count(len(found.leftovers), 'object')}, {size(found.bytes)}"
    if not found.leftovers:
        print(f"{dataset}: nothing to sweep")
    else:
        print(f"{dataset}: {what} removed" if found.removed else f"{dataset}: {what}; --delete removes them")
        listing = Listing("size", "object", "why", right=("size",))
        for item in found.leftovers:
            listing.add(size(item.size), item.path, item.reason)
        show(listing)
    for name, reason in found.spared.items():
        print(f"left alone: {name}, {reason}")
