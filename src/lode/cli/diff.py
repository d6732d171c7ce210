"""``lode diff``: the changes between two snapshots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import typer

from lode.cli.change import open_existing
from lode.cli.columns import changes_as_json, changes_between, changes_table
from lode.cli.parameters import DATASET, JSON, ROOT, STORE_OPTION, complete_snapshot
from lode.cli.terminal import FAINT, TextTable, print_json, print_lines
from lode.errors import InvalidOptionError, NotFoundError
from lode.units import count, size

if TYPE_CHECKING:
    from lode.cli.columns import ColumnChange
    from lode.dataset import Dataset
    from lode.describe import Partition
    from lode.format.manifest import Manifest
    from lode.read.scan import Scan
    from lode.snapshot import Snapshot

_NUMBERS: Final = ("rows", "files", "bytes")

_FROM: Final[Any] = typer.Argument(
    ..., metavar="FROM", help="The older snapshot, which is left out.", autocompletion=complete_snapshot
)
_TO: Final[Any] = typer.Argument(
    "latest", metavar="TO", help="The newer snapshot, which is included.", autocompletion=complete_snapshot
)


def diff(
    dataset: str = DATASET,
    older: str = _FROM,
    newer: str = _TO,
    root: str = ROOT,
    json: bool = JSON,
    store_option: list[str] = STORE_OPTION,
) -> None:
    """Show what changed between two snapshots.

    Rows and files by partition, and how the columns changed.
    """
    from lode.describe import partitions_of_all

    opened = open_existing(dataset, root, store_option)
    start, end = opened.snapshot(older), opened.snapshot(newer)
    snapshots = _between(opened, start, end)
    came, went = _files_between(opened, start, end, snapshots)
    into, out = partitions_of_all(opened, came), partitions_of_all(opened, went)
    parts = {name: _net(into.get(name), out.get(name)) for name in sorted({*into, *out})}
    changes = _changed_columns(opened, start, end)
    added, removed = _total(came), _total(went)
    rows, files, total = (there - gone for there, gone in zip(added, removed, strict=True))
    if json:
        print_json(
            {
                "dataset": dataset,
                "from": start.id,
                "to": end.id,
                "snapshots": len(snapshots),
                "rows": rows,
                "files": files,
                "bytes": total,
                "added": dict(zip(_NUMBERS, added, strict=True)),
                "removed": dict(zip(_NUMBERS, removed, strict=True)),
                "partitions": {name: net._asdict() for name, net in parts.items()},
                **changes_as_json(changes),
            }
        )
        return
    from rich.text import Text

    sign = "-" if rows < 0 else "+"
    shown = f"{sign}{count(abs(rows), 'row')}, "
    if removed.files:
        shown += f"{count(removed.files, 'file')} out, {added.files:,} in"
    else:
        shown += f"{count(files, 'file')}, {size(total)}"
    lines: list[Any] = [Text.assemble(shown, (f" in {count(len(snapshots), 'snapshot')}", FAINT))]
    if list(parts) not in ([], [""]):
        table = TextTable("partition", *_NUMBERS[:2], "size", right=("rows", "files", "size"))
        for name, net in parts.items():
            moved = "+?" if net.rows is None else f"{net.rows:+,}"
            table.add(name, moved, _signed(net.files, removed.files), _signed_size(net.bytes, removed.files))
        lines += ["", table]
    if changes:
        lines += ["", changes_table(changes)]
    print_lines(*lines)


class _Amount(NamedTuple):
    """What was added or removed."""

    rows: int
    files: int
    bytes: int


class _Net(NamedTuple):
    """How one partition has changed. ``rows`` is None if a codec did not count them."""

    rows: int | None
    files: int
    bytes: int


def _files_between(
    dataset: Dataset, start: Snapshot, end: Snapshot, between: list[Snapshot]
) -> tuple[list[Manifest], list[Manifest]]:
    """The files that came and those that went, as manifests with only these."""
    if all(snapshot.manifest.is_append for snapshot in between):
        return [snapshot.manifest for snapshot in between], []
    before, after = dataset.plan(as_of=start), dataset.plan(as_of=end)
    old, new = set(before.paths), set(after.paths)
    return _only(after, new - old), _only(before, old - new)


def _only(scan: Scan, paths: set[str]) -> list[Manifest]:
    """The snapshots that added these files, each with only these."""
    from lode.read.state import reduced

    files = ((file, manifest) for manifest in scan.manifests for file in manifest.files)
    return reduced((entry for entry in files if entry[0].path in paths), lambda *_: 0)


def _total(manifests: list[Manifest]) -> _Amount:
    files = [file for manifest in manifests for file in manifest.files]
    rows = sum(manifest.row_count for manifest in manifests)
    return _Amount(rows, len(files), sum(file.size_bytes for file in files))


def _net(came: Partition | None, went: Partition | None) -> _Net:
    rows: list[int | None] = []
    files = size = 0
    for part, sign in ((came, 1), (went, -1)):
        if part is not None:
            rows.append(None if part.rows is None else sign * part.rows)
            files += sign * part.files
            size += sign * part.bytes
    known = [number for number in rows if number is not None]
    return _Net(sum(known) if len(known) == len(rows) else None, files, size)


def _signed(number: int, removed: int) -> str:
    """With a sign if anything was removed: otherwise everything was added."""
    return f"{number:+,}" if removed else f"{number:,}"


def _signed_size(number: int, removed: int) -> str:
    sign = ("-" if number < 0 else "+") if removed else ""
    return f"{sign}{size(abs(number))}"


def _between(dataset: Dataset, start: Snapshot, end: Snapshot) -> list[Snapshot]:
    try:
        return dataset.snapshots(since=start, as_of=end)
    except NotFoundError:
        if any(snapshot.id == end.id for snapshot in dataset.history(as_of=start)):
            raise InvalidOptionError(f"{start.id} is newer than {end.id}: name the older one first") from None
        raise


def _changed_columns(dataset: Dataset, start: Snapshot, end: Snapshot) -> list[ColumnChange]:
    if start.id == end.id:
        return []
    # Only stored definitions have ids that stay the same between snapshots.
    by_id = start.manifest.definition is not None and end.manifest.definition is not None
    return changes_between(dataset.definition_at(start), dataset.definition_at(end), by_id=by_id)
