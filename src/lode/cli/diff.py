"""``lode diff``: the changes between two snapshots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import typer

from lode.cli.columns import changes_as_json, changes_between, changes_table
from lode.cli.parameters import DATASET, JSON, ROOT, STORE_OPTION, complete_snapshot, open_root
from lode.cli.terminal import FAINT, TextTable, print_json, print_lines
from lode.errors import InvalidOptionError, NotFoundError
from lode.units import count, size

if TYPE_CHECKING:
    from lode.cli.columns import ColumnChange
    from lode.dataset import Dataset
    from lode.snapshot import Snapshot

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
    from lode.cli.ls import partition_json, partitions_of_snapshots
    from lode.discover import open_dataset

    opened = open_dataset(dataset, open_root(root, store_option))
    start, end = opened.snapshot(older), opened.snapshot(newer)
    snapshots = _between(opened, start, end)
    parts = partitions_of_snapshots(opened, snapshots)
    changes = _changed_columns(opened, start, end)
    rows = sum(snapshot.row_count for snapshot in snapshots)
    files = sum(len(snapshot.files) for snapshot in snapshots)
    total = sum(snapshot.size_bytes for snapshot in snapshots)
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
                "partitions": {name: partition_json(part) for name, part in parts.items()},
                **changes_as_json(changes),
            }
        )
        return
    from rich.text import Text

    added = f"+{count(rows, 'row')}, {count(files, 'file')}, {size(total)}"
    lines: list[Any] = [Text.assemble(added, (f" in {count(len(snapshots), 'snapshot')}", FAINT))]
    if list(parts) not in ([], [""]):
        table = TextTable("partition", "rows", "files", "size", right=("rows", "files", "size"))
        for name, part in parts.items():
            table.add(
                name, "+?" if part.rows is None else f"+{part.rows:,}", f"{part.files:,}", size(part.bytes)
            )
        lines += ["", table]
    if changes:
        lines += ["", changes_table(changes)]
    print_lines(*lines)


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
