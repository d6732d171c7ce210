"""``lode merge``: update, delete or insert the rows of files by their keys."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any, Final

import typer

from lode.change.base import OnChangeConflict  # noqa: TC001 - typer reads it from the signature
from lode.change.merge import WhenMatched, WhenNotMatched  # noqa: TC001 - as above
from lode.cli.change import InputRows, open_existing, print_change
from lode.cli.parameters import (
    DATASET,
    DRY_RUN,
    FILES,
    FROM,
    JSON,
    KEY,
    METADATA,
    ON_CONFLICT,
    ROOT,
    STORE_OPTION,
    InputFormat,
    parse_metadata,
)
from lode.cli.terminal import progress
from lode.cli.write import refuse_new
from lode.cli.write_target import names_in

_ON: Final[Any] = typer.Option(
    None, "--on", metavar="A,B", help="The key columns. Default: the primary key of the dataset."
)
_WHEN_MATCHED: Final[Any] = typer.Option(
    "update", "--when-matched", help="What happens to rows of the dataset with a key of the files."
)
_WHEN_NOT_MATCHED: Final[Any] = typer.Option(
    "insert", "--when-not-matched", help="What happens to rows of the files with a new key."
)


def merge(
    dataset: str = DATASET,
    files: list[str] = FILES,
    root: str = ROOT,
    source: InputFormat | None = FROM,
    on: str | None = _ON,
    when_matched: WhenMatched = _WHEN_MATCHED,
    when_not_matched: WhenNotMatched = _WHEN_NOT_MATCHED,
    metadata: list[str] = METADATA,
    idempotency_key: str | None = KEY,
    on_conflict: OnChangeConflict = ON_CONFLICT,
    dry_run: bool = DRY_RUN,
    json: bool = JSON,
    store_option: list[str] = STORE_OPTION,
) -> None:
    """Merge the rows of files by key, as one snapshot.

    Rows with a key that the dataset has are updated, the others are inserted. Columns that the files do not
    have keep their values.
    """
    merged = parse_metadata(metadata)
    keys = names_in("--on", on)
    target = open_existing(dataset, root, store_option)
    with ExitStack() as stack, progress(f"merging into {dataset}", "files") as advance:
        rows = InputRows(stack, files, source, target, whole=False)
        if rows.columns is not None:
            refuse_new(dataset, target.definition, rows.columns, evolve=False)
        change = target.merge(
            rows.data(),
            merged,
            on=keys or None,
            when_matched=when_matched,
            when_not_matched=when_not_matched,
            idempotency_key=idempotency_key,
            on_conflict=on_conflict,
            dry_run=dry_run,
            progress=advance,
        )
    print_change(dataset, change, json=json, dry_run=dry_run)
