"""``lode log``: the history of a dataset or volume, newest first."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import typer

from lode.cli.change import open_either
from lode.cli.parameters import AS_OF, DATASET, JSON_LINES, ROOT, SINCE, STORE_OPTION, VOLUME
from lode.cli.terminal import FAINT, TextTable, brief, print_json, print_lines, printable, short_id
from lode.describe import amount, row_change
from lode.units import count, moment, size

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lode.dataset import Dataset
    from lode.snapshot import Snapshot

_NUMBER: Final[Any] = typer.Option(
    None, "--number", "-n", min=0, metavar="N", help="Only the newest N snapshots."
)
_GRAPH: Final[Any] = typer.Option(
    False, "--graph", "-g", help="Draw the history as a line, with the partitions of each snapshot."
)
_LINEAGE: Final[Any] = typer.Option(
    False, "--lineage", help="Show which pipeline made each snapshot, from what, and its expectations."
)


def log(
    dataset: str = DATASET,
    root: str = ROOT,
    number: int | None = _NUMBER,
    graph: bool = _GRAPH,
    lineage: bool = _LINEAGE,
    as_of: str | None = AS_OF,
    since: str | None = SINCE,
    volume: bool = VOLUME,
    json: bool = JSON_LINES,
    store_option: list[str] = STORE_OPTION,
) -> None:
    """Show the snapshots of a dataset, newest first."""
    found = open_either(dataset, root, store_option, volume=volume)
    chosen: Iterable[dict[str, Any]] = islice(_lines(found, since, as_of), number)
    if json:
        for line in chosen:
            print_json(line)
        return
    if lineage:
        chosen = map(_with_lineage, chosen)
    if graph:
        _print_graph(chosen, None if volume or as_of else _pending(found))
    else:
        _print_table(list(chosen), files="blocks" if volume else "files")


def _lines(opened: Any, since: str | None, as_of: str | None) -> Iterator[dict[str, Any]]:
    """The snapshots of a dataset or a volume."""
    sequence: int | None = None
    for snapshot in opened.history(since=since, as_of=as_of):
        # Counted down from the newest: manifests of the Go implementation have no sequence number.
        sequence = opened.chain.sequence_of(snapshot.manifest) if sequence is None else sequence - 1
        line = {
            "sequence": sequence,
            "id": snapshot.id,
            "parent": snapshot.parent_id,
            "created_at": snapshot.created_at,
            "rows": None,
            "bytes": snapshot.size_bytes,
            "files": None,
            "rows_added": None,
            "rows_removed": None,
            "removed": None,
            "restores": None,
            "partitions": [],
            "metadata": snapshot.metadata,
            "idempotency_key": None,
            "rebases": snapshot.rebases,
            "group": snapshot.group,
            "writer": snapshot.writer,
            "operation": None,
        }
        is_volume = hasattr(snapshot, "blocks")
        yield line | ({"files": len(snapshot.blocks)} if is_volume else _change(opened, snapshot))


def _change(dataset: Dataset, snapshot: Snapshot) -> dict[str, Any]:
    """What a snapshot of a dataset did."""
    manifest = snapshot.manifest
    key = manifest.idempotency
    partitions = {dataset.layout.partition_of(dataset.id, file.path) for file in snapshot.files}
    partitions.update(manifest.removes.partitions if manifest.removes else ())
    change = row_change(manifest)
    return {
        "rows": snapshot.row_count,
        "files": len(snapshot.files),
        "rows_added": change.added,
        "rows_removed": change.removed,
        "removed": amount(manifest.removed),
        "restores": manifest.restores,
        "partitions": sorted(partitions - {""}),
        "idempotency_key": list(key) if key else None,
        "operation": manifest.operation,
    }


def _with_lineage(line: dict[str, Any]) -> dict[str, Any]:
    """The line with its lineage and expectations in words, instead of as metadata."""
    from lode.lineage.flow import EXPECTATIONS, expectations_in, lineage_in
    from lode.lineage.record import KEY

    lineage = lineage_in(line["metadata"])
    if lineage is None:
        return line
    inputs = [f"{read.dataset} {_span(read.after.sequence, read.up_to.sequence)}" for read in lineage.inputs]
    tables = [f"{read.dataset} at {read.up_to.sequence:,}" for read in lineage.tables.values()]
    read = [*inputs, *tables, *(source.words for source in lineage.sources)]
    words = f"by {lineage.maker}{' from ' if read else ''}{', '.join(read)}"
    words += f" with steps {lineage.steps}" if lineage.steps else ""
    failed = [f"{each.name} {each.failed:,}" for each in expectations_in(line["metadata"])]
    words += f"; not met: {', '.join(failed)}" if failed else ""
    rest = {name: value for name, value in line["metadata"].items() if name not in (KEY, EXPECTATIONS)}
    return {**line, "metadata": rest, "idempotency_key": None, "lineage": words}


def _span(after: int, up_to: int) -> str:
    return f"{up_to:,}" if after + 1 >= up_to else f"{after + 1:,} to {up_to:,}"


def _pending(dataset: Any) -> str | None:
    pending = dataset.chain.resolve().pending
    return pending.manifest.snapshot_id if pending else None


def _print_table(lines: list[dict[str, Any]], *, files: str) -> None:
    # These columns are left out if they would be empty.
    optional = ("rows_removed", "operation", "rebases", "group", "writer")
    also = [name for name in optional if any(_cell(line, name) for line in lines)]
    numbers = ("#", "rows", "size", files, "removed", "rebases", "group")
    named = [name.removeprefix("rows_") for name in also]
    headings = ("#", "snapshot", "time", "rows", "size", files, *named, "metadata")
    table = TextTable(*headings, right=numbers, cut=True)
    for line in lines:
        rows = "" if line["rows"] is None else f"{line['rows_added']:,}"
        cells = (
            line["sequence"],
            short_id(line["id"]),
            moment(line["created_at"]),
            rows,
            size(line["bytes"]),
        )
        table.add(*cells, f"{line['files']:,}", *(_cell(line, name) for name in also), _notes(line))
    print_lines(table)


def _print_graph(lines: Iterable[dict[str, Any]], pending: str | None) -> None:
    """A dot for each snapshot, a diamond for a rebased one, a ring for one that is not published yet."""
    from rich.text import Text

    drawn: list[Text] = []
    if pending:
        drawn.append(Text.assemble(("◌ ", "yellow"), pending, (" committed, not yet published", FAINT)))
    for line in lines:
        first = line["parent"] is None
        stem = "  " if first else "│ "
        dot = ("◆ ", "yellow") if line["rebases"] else ("● ", "green")
        head = dot, (f"{line['sequence']:,} ", "bold"), line["id"], (f"  {moment(line['created_at'])}", FAINT)
        rebased = f"  rebased {count(line['rebases'], 'time')}" if line["rebases"] else ""
        group = f"  in a group of {line['group']:,}" if line["group"] > 1 else ""
        operation = f"  {_cell(line, 'operation')}".rstrip()
        drawn.append(Text.assemble(*head, (operation, "cyan"), (rebased + group, "yellow")))
        if line["rows"] is None:
            added = f"{count(line['files'], 'block')}, {size(line['bytes'])}"
        else:
            added = f"+{count(line['rows_added'], 'row')}"
            added += f", -{count(line['rows_removed'], 'row')}" if line["rows_removed"] else ""
            added += f", {count(line['files'], 'file')}, {size(line['bytes'])}"
        details = [added, _partitions(line["partitions"]), _writer(line), _notes(line)]
        drawn += [Text.assemble((stem, "green"), (f"  {printable(text)}", "")) for text in details if text]
        if not first:
            drawn.append(Text("│", "green"))
    if drawn and drawn[-1].plain == "│":
        drawn[-1] = Text("┊", "green")
    print_lines(*drawn)


def _cell(line: dict[str, Any], name: str) -> Any:
    """The value of an optional column; the usual ones are left out: an append, a commit without others."""
    value = line[name]
    if isinstance(value, int):
        return f"{value:,}" if value > (name == "group") else ""
    return "" if value == "append" else value or ""


def _partitions(partitions: list[str], limit: int = 3) -> str:
    rest = len(partitions) - limit
    return ", ".join(partitions[:limit]) + (f" and {rest:,} more" if rest > 0 else "")


def _writer(line: dict[str, Any]) -> str:
    """The writer, unless the idempotency key already shows it."""
    writer, key = line["writer"], line["idempotency_key"]
    return f"by {writer}" if writer and not (key and key[0] == writer) else ""


def _notes(line: dict[str, Any]) -> str:
    """The restored snapshot, the metadata and the idempotency key."""
    key = line["idempotency_key"]
    restored = f"of {short_id(line['restores'])}" if line["restores"] else ""
    shown = f"key={'/'.join(part for part in key if part)}" if key else ""
    made = line.get("lineage", "")
    return " ".join(part for part in (restored, made, brief(line["metadata"]), shown) if part)
