"""``lode compact``: the same rows in fewer, larger files."""

from __future__ import annotations

from typing import Any, Final

import typer

from lode.cli.change import open_existing, print_change
from lode.cli.parameters import DATASET, DRY_RUN, JSON, KEY, METADATA, ROOT, STORE_OPTION, parse_metadata
from lode.cli.terminal import progress
from lode.cli.write_target import names_in
from lode.errors import InvalidOptionError
from lode.units import byte_count

TARGET_FILE_SIZE: Final[Any] = typer.Option(
    "128MiB", "--target-file-size", metavar="SIZE", help="The size of the new files."
)
SORT_BY: Final[Any] = typer.Option(
    None,
    "--sort-by",
    metavar="A,B",
    help="Sort the rows of each new file by these columns. Default: those of the dataset.",
)
WHERE: Final[Any] = typer.Option(
    None, "--where", "-w", metavar="SQL", help="Only files that may have rows for which this is true."
)


def compact(
    dataset: str = DATASET,
    root: str = ROOT,
    target_file_size: str = TARGET_FILE_SIZE,
    sort_by: str | None = SORT_BY,
    where: str | None = WHERE,
    metadata: list[str] = METADATA,
    idempotency_key: str | None = KEY,
    dry_run: bool = DRY_RUN,
    json: bool = JSON,
    store_option: list[str] = STORE_OPTION,
) -> None:
    """Put the rows of small files into fewer large ones, as one snapshot.

    No row changes, and writers are not disturbed. The small files stay until lode expire.
    """
    merged = parse_metadata(metadata)
    target_bytes = file_bytes(target_file_size)
    columns = names_in("--sort-by", sort_by)
    target = open_existing(dataset, root, store_option)
    with progress(f"compacting {dataset}", "files") as advance:
        change = target.compact(
            merged,
            target_file_bytes=target_bytes,
            sort_by=columns or None,
            where=where,
            idempotency_key=idempotency_key,
            dry_run=dry_run,
            progress=advance,
        )
    print_change(dataset, change, json=json, dry_run=dry_run)


def file_bytes(text: str) -> int:
    """The bytes in --target-file-size."""
    try:
        return byte_count(text)
    except ValueError as error:
        raise InvalidOptionError(f"--target-file-size: {error}") from None
