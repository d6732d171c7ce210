"""``lode expire``: give up old snapshots, and the files that only they need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import typer

from lode.cli.change import open_existing
from lode.cli.parameters import DATASET, JSON, ROOT, STORE_OPTION, age_or_time
from lode.cli.terminal import print_json, print_lines, progress
from lode.errors import InvalidOptionError
from lode.units import count, size

if TYPE_CHECKING:
    from datetime import timedelta

    from lode.upkeep.expire import ExpireReport

OLDER_THAN: Final[Any] = typer.Option(
    None,
    "--older-than",
    metavar="AGE|TIME",
    help="Keep the dataset as it was at any time since then: an age such as 30d, a date or a time.",
)
KEEP: Final[Any] = typer.Option(None, "--keep", min=1, metavar="N", help="Keep the newest N snapshots.")
DELETE: Final[Any] = typer.Option(
    False, "--delete", help="Expire the snapshots and remove the files. Without it they are only counted."
)


def expire(
    dataset: str = DATASET,
    root: str = ROOT,
    older_than: str | None = OLDER_THAN,
    keep: int | None = KEEP,
    delete: bool = DELETE,
    json: bool = JSON,
    store_option: list[str] = STORE_OPTION,
) -> None:
    """Count the snapshots that are too old and the files that only they need, or --delete them.

    The newest snapshot and tagged ones stay, with all of their rows.
    """
    from lode.upkeep.expire import expire as expire_snapshots

    limit = expire_limit(older_than, keep)
    opened = open_existing(dataset, root, store_option)
    with progress(f"expiring {dataset}", "files") as advance:
        done = expire_snapshots(opened, older_than=limit, keep=keep, dry_run=not delete, progress=advance)
    print_expired(dataset, done, json=json)


def expire_limit(older_than: str | None, keep: int | None) -> timedelta | None:
    """The age in --older-than; exactly one of the two options is given."""
    if (older_than is None) == (keep is None):
        raise InvalidOptionError("give --older-than, such as 30d, or --keep, such as 10")
    return None if older_than is None else age_or_time(older_than)


def print_expired(dataset: str, done: ExpireReport, *, json: bool) -> None:
    """Print what an expiry has removed, or would."""
    if json:
        print_json(
            {
                "dataset": dataset,
                "floor": done.floor,
                "snapshots": done.snapshots,
                "files": done.files,
                "bytes": done.bytes,
                "checkpoints": done.checkpoints,
                "removed": done.removed,
                "paths": done.paths,
            }
        )
        return
    if not done.snapshots and not done.files:
        print_lines(f"{dataset}: nothing to expire")
        return
    what = f"{count(done.snapshots, 'snapshot')}, {count(done.files, 'file')}, {size(done.bytes)}"
    end = "expired" if done.removed else "would expire; --delete does it"
    print_lines(f"{dataset}: {what} {end}; history can be read from number {done.floor} on")
