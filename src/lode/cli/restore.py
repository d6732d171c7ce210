"""``lode restore``: return to the rows of an earlier snapshot."""

from __future__ import annotations

from typing import Any, Final

import typer

from lode.cli.change import open_existing, print_change
from lode.cli.parameters import (
    DATASET,
    DRY_RUN,
    JSON,
    METADATA,
    ROOT,
    STORE_OPTION,
    complete_snapshot,
    parse_metadata,
)

_SNAPSHOT: Final[Any] = typer.Argument(
    ...,
    metavar="SNAPSHOT",
    help="An id or its beginning, a number from 1, latest~2 for two before the newest, a tag or a time.",
    autocompletion=complete_snapshot,
)


def restore(
    dataset: str = DATASET,
    snapshot: str = _SNAPSHOT,
    root: str = ROOT,
    metadata: list[str] = METADATA,
    dry_run: bool = DRY_RUN,
    json: bool = JSON,
    store_option: list[str] = STORE_OPTION,
) -> None:
    """Return to the rows and columns of an earlier snapshot, as a new snapshot.

    No file is copied, and the snapshots between stay readable.
    """
    merged = parse_metadata(metadata)
    change = open_existing(dataset, root, store_option).restore(snapshot, merged, dry_run=dry_run)
    print_change(dataset, change, json=json, dry_run=dry_run)
