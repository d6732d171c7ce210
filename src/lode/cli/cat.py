"""``lode cat``: the records of a snapshot, or of a stretch of history."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING, Any, Final

import typer

from lode.cli.emit import Format, chosen, emit
from lode.cli.parameters import AS_OF, DATASET, FORMAT, LIMIT, ROOT, SINCE, SNAPSHOT, STORE_OPTION

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lode.dataset import Dataset
    from lode.read.scan import Scan

_SCAN: Final[Any] = typer.Option(False, "--scan", "-s", help="The whole history, from the first snapshot on.")
_COLUMNS: Final[Any] = typer.Option(None, "--columns", "-c", metavar="A,B", help="Only these columns.")
_WHERE: Final[Any] = typer.Option(
    None, "--where", "-w", metavar="CONDITION", help="Only rows like these: \"kind = 'a' AND n > 3\"."
)
_VERIFY: Final[Any] = typer.Option(False, "--verify", help="Check the files against their checksums first.")


def cat(
    dataset: str = DATASET,
    snapshot: str = SNAPSHOT,
    root: str = ROOT,
    scan: bool = _SCAN,
    as_of: str | None = AS_OF,
    since: str | None = SINCE,
    columns: str | None = _COLUMNS,
    where: str | None = _WHERE,
    limit: int | None = LIMIT,
    form: Format | None = FORMAT,
    verify: bool = _VERIFY,
    store_option: list[str] = STORE_OPTION,
) -> None:
    """Print the records of a snapshot, or of history.

    Without --scan, --as-of or --since it is what the one snapshot itself holds.
    """
    from lode.cli.root import open_root
    from lode.codec.jsonl import JSONL
    from lode.discover import open_dataset
    from lode.read.scan import verify_files

    opened = open_dataset(dataset, open_root(root, store_option))
    found = _found(opened, snapshot, scan=scan, as_of=as_of, since=since)
    if verify:
        for manifest in found.manifests:
            verify_files(found.store, manifest, found.components)
    if found.components.codec is None:
        _blobs(found, asked=[columns, where, limit, form])
        return
    form = chosen(form)
    names = [name.strip() for name in columns.split(",")] if columns is not None else None
    # JSON keeps its own shape where nobody asked for columns: records need not be alike.
    if isinstance(found.components.codec, JSONL) and where is None and form in ("jsonl", "table"):
        emit(_records(found, names), form, limit=limit)
        return
    reader = found.read(columns=names, where=where)
    emit(reader, form, limit=limit, schema=reader.schema)


def _found(dataset: Dataset, snapshot: str, *, scan: bool, as_of: str | None, since: str | None) -> Scan:
    from lode.cli.named import point_named, snapshot_named
    from lode.errors import InvalidOptionError

    if not (scan or as_of or since):
        return dataset.plan_snapshot(snapshot_named(dataset, snapshot))
    if snapshot != "latest":
        raise InvalidOptionError(f"{snapshot} is one snapshot: for history up to it, say --as-of {snapshot}")
    start = snapshot_named(dataset, since) if since is not None else None
    return dataset.plan(as_of=point_named(dataset, as_of), since=start)


def _records(scan: Scan, columns: Sequence[str] | None) -> Iterator[list[Any]]:
    """The records as they were written."""
    from lode.cli.emit import records_of
    from lode.read.scan import check_components, decode_file

    for manifest in scan.manifests:
        check_components(manifest, scan.components)
    for file in scan.files:
        for chunk in decode_file(scan.store, file, scan.components):
            yield (
                [_projected(record, columns) for record in records_of(chunk)]
                if columns
                else records_of(chunk)
            )


def _projected(record: Any, columns: Sequence[str]) -> Any:
    return {name: record.get(name) for name in columns} if isinstance(record, dict) else record


def _blobs(scan: Scan, *, asked: Sequence[object]) -> None:
    from lode.errors import InvalidOptionError
    from lode.read.scan import open_plain

    if any(option is not None for option in asked):
        raise InvalidOptionError(f"dataset {scan.dataset_id!r} holds blobs: there are no rows to choose from")
    if sys.stdout.isatty():
        raise InvalidOptionError(f"dataset {scan.dataset_id!r} holds blobs: send them to a file or a pipe")
    sys.stdout.flush()
    for file in scan.files:
        with open_plain(scan.store, file, scan.components) as plain:
            shutil.copyfileobj(plain, sys.stdout.buffer, 1 << 20)
    sys.stdout.buffer.flush()
