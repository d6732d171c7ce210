"""``lode cat``: the rows of a dataset, now or at a snapshot, or those of one snapshot."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING, Any, Final

import typer

from lode.cli.change import open_existing
from lode.cli.output import Format, choose_format, print_rows, records_of
from lode.cli.parameters import (
    AS_OF,
    DATASET,
    FORMAT,
    JSON_LINES,
    LIMIT,
    ROOT,
    SINCE,
    STORE_OPTION,
    complete_snapshot,
)
from lode.errors import InvalidOptionError
from lode.read.incremental import OnRemoval  # noqa: TC001 - typer reads it from the signature

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lode.dataset import Dataset
    from lode.read.scan import Scan

_SNAPSHOT: Final[Any] = typer.Option(
    None,
    "--snapshot",
    "-s",
    metavar="SNAPSHOT",
    help="Only the rows that this snapshot added.",
    autocompletion=complete_snapshot,
)
_ON_REMOVAL: Final[Any] = typer.Option(
    "fail",
    "--on-removal",
    help="If older rows were removed after --since: refuse, ignore it, or print them too, with a column "
    "_change.",
)
_COLUMNS: Final[Any] = typer.Option(None, "--columns", "-c", metavar="A,B", help="Only these columns.")
_WHERE: Final[Any] = typer.Option(
    None, "--where", "-w", metavar="CONDITION", help="Only matching rows: \"kind = 'a' AND n > 3\"."
)
_VERIFY: Final[Any] = typer.Option(False, "--verify", help="Check the files against their checksums first.")


def cat(
    dataset: str = DATASET,
    root: str = ROOT,
    snapshot: str | None = _SNAPSHOT,
    as_of: str | None = AS_OF,
    since: str | None = SINCE,
    on_removal: OnRemoval = _ON_REMOVAL,
    columns: str | None = _COLUMNS,
    where: str | None = _WHERE,
    limit: int | None = LIMIT,
    form: Format | None = FORMAT,
    json: bool = JSON_LINES,
    verify: bool = _VERIFY,
    store_option: list[str] = STORE_OPTION,
) -> None:
    """Print the rows of a dataset.

    All rows, those at --as-of, those that came after --since, or those that one --snapshot added.
    """
    from lode.codec.protocol import takes_any_record
    from lode.read.files import verify_files

    opened = open_existing(dataset, root, store_option)
    scan = _scan(opened, snapshot, as_of=as_of, since=since, on_removal=on_removal)
    if verify:
        for manifest in scan.manifests:
            verify_files(scan.store, manifest, scan.components)
    if scan.components.codec is None:
        _print_blobs(scan, options=[columns, where, limit, form, json or None])
        return
    form = choose_format(form, json=json)
    names = [name.strip() for name in columns.split(",")] if columns is not None else None
    # JSON records may differ in their fields, so they are printed as stored unless columns are needed.
    raw = takes_any_record(scan.components.codec) and where is None and form in ("jsonl", "table")
    if raw and on_removal != "report" and not scan.other_names():
        print_rows(_records(scan, names), form, limit=limit)
        return
    reader = scan.read(columns=names, where=where)
    print_rows(reader, form, limit=limit, schema=reader.schema)


def _scan(
    dataset: Dataset, snapshot: str | None, *, as_of: str | None, since: str | None, on_removal: OnRemoval
) -> Scan:
    if on_removal != "fail" and since is None:
        raise InvalidOptionError(f"--on-removal {on_removal} is for the rows after --since: give it too")
    if snapshot is None and since is None and dataset.components.codec is None:
        # A snapshot of a blob dataset replaces the blob, so the newest one is the dataset.
        newest = dataset.snapshot("latest" if as_of is None else as_of)
        if newest.files:
            return dataset.plan_snapshot(newest)
        # A restore or an expiry has no files of its own.
        plan = dataset.plan(as_of=newest)
        return plan.of(plan.manifests[-1:])
    if snapshot is None:
        return dataset.plan(as_of=as_of, since=since, on_removal=on_removal)
    if as_of is not None or since is not None:
        raise InvalidOptionError(
            f"--snapshot {snapshot} selects one snapshot: leave it out, or leave out --as-of and --since"
        )
    return dataset.plan_snapshot(snapshot)


def _records(scan: Scan, columns: Sequence[str] | None) -> Iterator[list[Any]]:
    """The records as they were written, or these fields of them."""
    from lode.read.files import check_components, decode_file

    for manifest in scan.manifests:
        check_components(manifest, scan.components)
    for file in scan.files:
        for chunk in decode_file(scan.store, file, scan.components):
            records = records_of(chunk)
            yield [_projected(record, columns) for record in records] if columns else records


def _projected(record: Any, columns: Sequence[str]) -> Any:
    return {name: record.get(name) for name in columns} if isinstance(record, dict) else record


def _print_blobs(scan: Scan, *, options: Sequence[object]) -> None:
    from lode.read.files import open_plain

    if any(option is not None for option in options):
        raise InvalidOptionError(f"dataset {scan.dataset_id!r} holds blobs: there are no rows to choose from")
    if sys.stdout.isatty():
        raise InvalidOptionError(f"dataset {scan.dataset_id!r} holds blobs: send them to a file or a pipe")
    sys.stdout.flush()
    for file in scan.files:
        with open_plain(scan.store, file, scan.components) as plain:
            shutil.copyfileobj(plain, sys.stdout.buffer, 1 << 20)
    sys.stdout.buffer.flush()
