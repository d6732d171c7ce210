"""``lode log``: the line of history, newest first."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import typer

from lode.cli.listing import FAINT, Listing
from lode.cli.parameters import DATASET, JSON_LINES, ROOT, STORE_OPTION, VOLUME
from lode.cli.printable import printable
from lode.cli.terminal import as_json, brief, short_id, show
from lode.units import count, moment, size

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lode.dataset import Dataset
    from lode.snapshot import Snapshot
    from lode.store.protocol import Store

_MOST: Final[Any] = typer.Option(None, "--number", "-n", min=0, metavar="N", help="Only the newest so many.")
_GRAPH: Final[Any] = typer.Option(
    False, "--graph", "-g", help="Draw the line, with what each snapshot touched."
)


def log(
    dataset: str = DATASET,
    root: str = ROOT,
    number: int | None = _MOST,
    graph: bool = _GRAPH,
    volume: bool = VOLUME,
    json: bool = JSON_LINES,
    store_option: list[str] = STORE_OPTION,
) -> None:
    """Show the snapshots of a dataset, newest first."""
    from lode.cli.root import open_root
    from lode.discover import open_dataset

    store = open_root(root, store_option)
    if volume:
        lines: Iterable[dict[str, Any]] = _volume_lines(store, dataset)
    else:
        found = open_dataset(dataset, store)
        lines = _dataset_lines(found)
    chosen = islice(lines, number)
    if json:
        _as_json(chosen)
    elif graph:
        _draw(chosen, None if volume else _pending(found))
    else:
        _as_table(chosen, what="blocks" if volume else "files")


def _dataset_lines(dataset: Dataset) -> Iterator[dict[str, Any]]:
    sequence: int | None = None
    for snapshot in dataset.history():
        # Counted down from the newest: what the Go implementation wrote has no number of its own.
        sequence = dataset.chain.sequence_of(snapshot.manifest) if sequence is None else sequence - 1
        yield _line(dataset, snapshot, sequence)


def _line(dataset: Dataset, snapshot: Snapshot, sequence: int) -> dict[str, Any]:
    key = snapshot.manifest.idempotency
    return {
        "sequence": sequence,
        "id": snapshot.id,
        "parent": snapshot.parent_id,
        "created_at": snapshot.created_at,
        "rows": snapshot.row_count,
        "bytes": snapshot.size_bytes,
        "files": len(snapshot.files),
        "partitions": sorted(
            {dataset.layout.partition_of(dataset.id, file.path) for file in snapshot.files} - {""}
        ),
        "metadata": snapshot.metadata,
        "idempotency_key": list(key) if key else None,
        "rebases": snapshot.rebases,
        "writer": snapshot.writer,
        "operation": snapshot.manifest.operation,
    }


def _volume_lines(store: Store, name: str) -> Iterator[dict[str, Any]]:
    from lode.discover import open_volume

    history = open_volume(name, store).snapshots()
    for sequence, snapshot in reversed(list(enumerate(history, 1))):
        yield {
            "sequence": sequence,
            "id": snapshot.id,
            "parent": snapshot.parent_id,
            "created_at": snapshot.created_at,
            "rows": None,
            "bytes": snapshot.size_bytes,
            "files": len(snapshot.blocks),
            "partitions": [],
            "metadata": snapshot.metadata,
            "idempotency_key": None,
            "rebases": snapshot.rebases,
            "writer": snapshot.writer,
            "operation": None,
        }


def _pending(dataset: Dataset) -> str | None:
    pending = dataset.chain.resolve().pending
    return pending.manifest.snapshot_id if pending else None


def _as_json(lines: Iterable[dict[str, Any]]) -> None:
    for line in lines:
        as_json(line)


def _as_table(lines: Iterable[dict[str, Any]], *, what: str) -> None:
    known = list(lines)
    # A column only where there is something to tell.
    also = [name for name in ("operation", "rebases", "writer") if any(_told(line, name) for line in known)]
    numbers = ("#", "rows", "size", what, "rebases")
    listing = Listing(
        "#", "snapshot", "time", "rows", "size", what, *also, "metadata", right=numbers, cut=True
    )
    for line in known:
        rows = "" if line["rows"] is None else f"{line['rows']:,}"
        cells = (
            line["sequence"],
            short_id(line["id"]),
            moment(line["created_at"]),
            rows,
            size(line["bytes"]),
        )
        listing.add(*cells, f"{line['files']:,}", *(_told(line, name) for name in also), _said(line))
    show(listing)


def _draw(lines: Iterable[dict[str, Any]], pending: str | None) -> None:
    """A dot for each snapshot on one line, a diamond for one that was rebased to be there.

    A ring is one whose writer has not shown it yet.
    """
    from rich.text import Text

    drawn: list[Text] = []
    if pending:
        drawn.append(Text.assemble(("◌ ", "yellow"), pending, (" committed, not yet published", FAINT)))
    for line in lines:
        first = line["parent"] is None
        stem = "  " if first else "│ "
        dot = ("◆ ", "yellow") if line["rebases"] else ("● ", "green")
        head = dot, (f"{line['sequence']:,} ", "bold"), line["id"]
        moved = f"  rebased {count(line['rebases'], 'time')}" if line["rebases"] else ""
        kind = f"  {_told(line, 'operation')}".rstrip()
        drawn.append(
            Text.assemble(
                *head, (f"  {moment(line['created_at'])}", FAINT), (kind, "cyan"), (moved, "yellow")
            )
        )
        if line["rows"] is None:
            grown = f"{count(line['files'], 'block')}, {size(line['bytes'])}"
        else:
            grown = f"+{count(line['rows'], 'row')}, {count(line['files'], 'file')}, {size(line['bytes'])}"
        told = [grown, _places(line["partitions"]), _by(line), _said(line)]
        drawn += [Text.assemble((stem, "green"), (f"  {printable(text)}", "")) for text in told if text]
        if not first:
            drawn.append(Text("│", "green"))
    if drawn and drawn[-1].plain == "│":
        drawn[-1] = Text("┊", "green")
    show(*drawn)


def _told(line: dict[str, Any], name: str) -> Any:
    """The value if it is worth a column: an append is what every snapshot is unless it says otherwise."""
    return "" if line[name] == "append" else line[name] or ""


def _places(partitions: list[str], most: int = 3) -> str:
    rest = len(partitions) - most
    return ", ".join(partitions[:most]) + (f" and {rest:,} more" if rest > 0 else "")


def _by(line: dict[str, Any]) -> str:
    """Who wrote it, unless the key that is shown too says so."""
    writer, key = line["writer"], line["idempotency_key"]
    return f"by {writer}" if writer and not (key and key[0] == writer) else ""


def _said(line: dict[str, Any]) -> str:
    key = line["idempotency_key"]
    named = f"key={'/'.join(part for part in key if part)}" if key else ""
    return " ".join(part for part in (brief(line["metadata"]), named) if part)
