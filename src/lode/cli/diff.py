"""``lode diff``: what came between two snapshots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import typer

from lode.cli.complete import offer_snapshots
from lode.cli.listing import FAINT, Listing
from lode.cli.parameters import DATASET, JSON, ROOT, STORE_OPTION
from lode.cli.terminal import as_json, show
from lode.units import count, size

if TYPE_CHECKING:
    from lode.cli.columns import Change
    from lode.cli.partitions import Partition
    from lode.dataset import Dataset
    from lode.snapshot import Snapshot

_FROM: Final[Any] = typer.Argument(
    ..., metavar="FROM", help="The older snapshot, which is left out.", autocompletion=offer_snapshots
)
_TO: Final[Any] = typer.Argument(
    "latest", metavar="TO", help="The newer one, which counts.", autocompletion=offer_snapshots
)


def diff(
    dataset: str = DATASET,
    older: str = _FROM,
    newer: str = _TO,
    root: str = ROOT,
    json: bool = JSON,
    store_option: list[str] = STORE_OPTION,
) -> None:
    """Show what came between two snapshots.

    Rows and files by partition, and how the columns changed.
    """
    from lode.cli.columns import changes_as_json
    from lode.cli.partitions import partitions_of
    from lode.cli.root import open_root
    from lode.discover import open_dataset

    opened = open_dataset(dataset, open_root(root, store_option))
    start, end = opened.snapshot(older), opened.snapshot(newer)
    snapshots = _between(opened, start, end)
    parts = partitions_of(opened, snapshots)
    changes = _changed_columns(opened, start, end)
    told = {
        "dataset": dataset,
        "from": start.id,
        "to": end.id,
        "snapshots": len(snapshots),
        "rows": sum(snapshot.row_count for snapshot in snapshots),
        "files": sum(len(snapshot.files) for snapshot in snapshots),
        "bytes": sum(snapshot.size_bytes for snapshot in snapshots),
        "partitions": {name: part.as_dict() for name, part in parts.items()},
        **changes_as_json(changes),
    }
    if json:
        as_json(told)
        return
    _tell(told, parts, changes)


def _between(dataset: Dataset, start: Snapshot, end: Snapshot) -> list[Snapshot]:
    from lode.errors import InvalidOptionError, NotFoundError

    try:
        return dataset.changes(start, end)
    except NotFoundError:
        if any(snapshot.id == end.id for snapshot in dataset.history(as_of=start)):
            raise InvalidOptionError(f"{start.id} is newer than {end.id}: name the older one first") from None
        raise


def _changed_columns(dataset: Dataset, start: Snapshot, end: Snapshot) -> list[Change]:
    """The dataset's columns that are not the same at both snapshots."""
    from lode.cli.columns import changes_between

    if start.id == end.id:
        return []
    # Before its first definition was stored, a dataset's columns have no ids that last.
    by_id = start.manifest.definition is not None and end.manifest.definition is not None
    return changes_between(dataset.definition_at(start), dataset.definition_at(end), by_id=by_id)


def _tell(told: dict[str, Any], parts: dict[str, Partition], changes: list[Change]) -> None:
    from rich.text import Text

    from lode.cli.columns import changes_listing

    grown = f"+{count(told['rows'], 'row')}, {count(told['files'], 'file')}, {size(told['bytes'])}"
    head = Text.assemble(grown, (f" in {count(told['snapshots'], 'snapshot')}", FAINT))
    lines: list[Any] = [head]
    if list(parts) not in ([], [""]):
        listing = Listing("partition", "rows", "files", "size", right=("rows", "files", "size"))
        for name, part in parts.items():
            listing.add(name, f"+{part.rows_text}", f"{part.files:,}", size(part.bytes))
        lines += ["", listing]
    if changes:
        lines += ["", changes_listing(changes)]
    show(*lines)
