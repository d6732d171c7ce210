"""``lode sweep``: remove files that no snapshot refers to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import typer

from lode.cli.parameters import DATASET, JSON, ROOT, STORE_OPTION, VOLUME, age_or_time, open_root
from lode.cli.terminal import TextTable, print_json, print_lines, progress
from lode.units import count, size

if TYPE_CHECKING:
    from lode.upkeep.leftovers import Sweep

OLDER_THAN: Final[Any] = typer.Option(
    "1d",
    "--older-than",
    metavar="AGE|TIME",
    help="The minimum age, such as 36h, or the date or time before which they were last written. Must exceed "
    "the duration of your longest write.",
)
DELETE: Final[Any] = typer.Option(
    False, "--delete", help="Remove the files. Without it they are only listed."
)


def sweep(
    dataset: str = DATASET,
    root: str = ROOT,
    older_than: str = OLDER_THAN,
    delete: bool = DELETE,
    volume: bool = VOLUME,
    json: bool = JSON,
    store_option: list[str] = STORE_OPTION,
) -> None:
    """List the files of writers that failed, or --delete them."""
    from lode.discover import open_damaged, open_damaged_volume
    from lode.upkeep.sweep import sweep as clean

    min_age = age_or_time(older_than)
    store = open_root(root, store_option)
    target = open_damaged_volume(dataset, store) if volume else open_damaged(dataset, store)
    with progress(f"sweeping {dataset}", "objects") as advance:
        found = clean(target, min_age, dry_run=not delete, progress=advance)
    print_swept(dataset, found, json=json)


def print_swept(dataset: str, found: Sweep, *, json: bool) -> None:
    """Print what a sweep has removed, or would."""
    if json:
        summary = {"dataset": dataset, "removed": found.removed, "bytes": found.bytes}
        print_json({**summary, "leftovers": found.leftovers, "spared": found.spared})
        return
    what = f"{count(len(found.leftovers), 'object')}, {size(found.bytes)}"
    if not found.leftovers:
        print(f"{dataset}: nothing to sweep")
    else:
        print(f"{dataset}: {what} removed" if found.removed else f"{dataset}: {what}; --delete removes them")
        table = TextTable("size", "object", "why", right=("size",))
        for item in found.leftovers:
            table.add(size(item.size), item.path, item.reason)
        print_lines(table)
    for name, reason in found.spared.items():
        print(f"left alone: {name}, {reason}")
