"""``lode delete``: remove rows from a dataset."""

from __future__ import annotations

from typing import Any, Final

import typer

from lode.change.base import OnChangeConflict  # noqa: TC001 - typer reads it from the signature
from lode.cli.change import open_existing, print_change
from lode.cli.parameters import (
    DATASET,
    DRY_RUN,
    JSON,
    KEY,
    METADATA,
    ON_CONFLICT,
    ROOT,
    STORE_OPTION,
    parse_metadata,
)
from lode.cli.terminal import progress

_WHERE: Final[Any] = typer.Option(
    ..., "--where", "-w", metavar="SQL", help="Delete the rows for which this is true, such as 'user = 7'."
)


def delete(
    dataset: str = DATASET,
    root: str = ROOT,
    where: str = _WHERE,
    metadata: list[str] = METADATA,
    idempotency_key: str | None = KEY,
    on_conflict: OnChangeConflict = ON_CONFLICT,
    dry_run: bool = DRY_RUN,
    json: bool = JSON,
    store_option: list[str] = STORE_OPTION,
) -> None:
    """Delete rows, as one snapshot.

    Earlier snapshots keep the rows until lode expire.
    """
    merged = parse_metadata(metadata)
    target = open_existing(dataset, root, store_option)
    with progress(f"deleting from {dataset}", "files") as advance:
        change = target.delete(
            where,
            merged,
            idempotency_key=idempotency_key,
            on_conflict=on_conflict,
            dry_run=dry_run,
            progress=advance,
        )
    print_change(dataset, change, json=json, dry_run=dry_run)
