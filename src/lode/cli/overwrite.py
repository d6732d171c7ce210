"""``lode overwrite``: replace partitions, rows or everything by the rows of files."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any, Final

import typer

from lode.change.base import OnChangeConflict  # noqa: TC001 - typer reads it from the signature
from lode.cli.change import InputRows, open_existing, print_change
from lode.cli.parameters import (
    ALLOW_EMPTY,
    DATASET,
    DRY_RUN,
    EVOLVE,
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
from lode.cli.write import no_rows, refuse_new
from lode.errors import InvalidOptionError

_PARTITION: Final[Any] = typer.Option(
    [],
    "--partition",
    metavar="KEY=VALUE",
    help="Replace this partition, such as day=mon or day=mon/hour=3. May be repeated.",
)
_WHERE: Final[Any] = typer.Option(
    None, "--where", "-w", metavar="SQL", help="Replace the rows for which this is true."
)
_EVERYTHING: Final[Any] = typer.Option(False, "--everything", help="Replace all rows.")


def overwrite(
    dataset: str = DATASET,
    files: list[str] = FILES,
    root: str = ROOT,
    source: InputFormat | None = FROM,
    partition: list[str] = _PARTITION,
    where: str | None = _WHERE,
    everything: bool = _EVERYTHING,
    metadata: list[str] = METADATA,
    idempotency_key: str | None = KEY,
    on_conflict: OnChangeConflict = ON_CONFLICT,
    evolve: bool = EVOLVE,
    allow_empty: bool = ALLOW_EMPTY,
    dry_run: bool = DRY_RUN,
    json: bool = JSON,
    store_option: list[str] = STORE_OPTION,
) -> None:
    """Replace rows by those of files, as one snapshot.

    Without --partition, --where or --everything: all rows of the partitions that the files have rows for.
    """
    merged = parse_metadata(metadata)
    if bool(partition) + (where is not None) + everything > 1:
        raise InvalidOptionError("--partition, --where and --everything exclude each other: give one of them")
    target = open_existing(dataset, root, store_option)
    if not (partition or where is not None or everything or target.layout.keys):
        raise InvalidOptionError(
            f"dataset {dataset!r} is not partitioned, so all of it would be replaced: add --everything, or "
            "--where for a part of it"
        )
    with ExitStack() as stack, progress(f"overwriting {dataset}", "files") as advance:
        rows = InputRows(stack, files, source, target, whole=True)
        if not rows.has_rows and not allow_empty:
            raise no_rows(dataset, "rows")
        if rows.columns is not None and not evolve:
            refuse_new(dataset, target.definition, rows.columns)
        change = target.overwrite(
            rows.data(reread=where is not None and on_conflict == "redo"),
            merged,
            partitions=partition or None,
            where=where,
            everything=everything,
            idempotency_key=idempotency_key,
            on_conflict=on_conflict,
            evolve=evolve,
            dry_run=dry_run,
            progress=advance,
        )
    print_change(dataset, change, json=json, dry_run=dry_run)
