"""``lode ls --streams``: the write streams of an ingest server, read from its lake and its state directory.

No server is needed: snapshots record the visible rows of each stream, and the logs in the state directory
record staged rows and whether a stream is open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lode.cli.terminal import TextTable, print_json, print_lines
from lode.discover import dataset_names, open_dataset
from lode.errors import InvalidOptionError, LodeError, NotFoundError
from lode.ingest.core.progress import METADATA, VisibleRows
from lode.ingest.core.strategies import State, StreamType, select_strategy
from lode.ingest.log.inspect import inspect_log
from lode.ingest.names import parse_stream
from lode.ingest.settings import Settings
from lode.units import moment

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from lode.ingest.log.inspect import LogSummary
    from lode.store.protocol import Store


def streams_of(
    store: Store, dataset: str | None, logs: Iterable[Path]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return a line for each stream of one dataset, or of all, the last written first.

    The second list has a line with an ``error`` for each dataset whose snapshots cannot be read.
    """
    shown: dict[str, dict[str, VisibleRows]] = {}
    faults: list[dict[str, Any]] = []
    for name in dataset_names(store) if dataset is None else [dataset]:
        try:
            shown[name] = _shown(name, store)
        except LodeError as error:
            if dataset is not None:
                raise
            faults.append({"dataset": name, "error": str(error)})
    lines = []
    for log in filter(None, map(inspect_log, logs)):
        table = log.facts["dataset"]
        if dataset in (None, table):
            # A table whose rows are all staged has no snapshot, so its dataset is not listed.
            lines.append(_line(log, shown.get(table, {}).pop(parse_stream(log.facts["name"]).stream, None)))
    lines += [
        _line_without_log(dataset, stream, found)
        for dataset, streams in shown.items()
        for stream, found in streams.items()
    ]
    return sorted(lines, key=lambda line: line["last_write"], reverse=True), faults


def state_of(store: Store, given: Path | None) -> Path | None:
    """The state directory of the lake's server: the given one, or the default; None if there is none."""
    try:
        return Settings(root=store, state=given).state_directory(store)
    except InvalidOptionError:
        return None


def logs_in(state: Path | None) -> list[Path]:
    """The logs of the streams; empty if there is no state directory."""
    folder = state / "streams" if state is not None else None
    return sorted(folder.iterdir()) if folder is not None and folder.is_dir() else []


def print_streams(lines: Iterable[dict[str, Any]], *, names: bool, json: bool) -> None:
    if names or json:
        for line in lines:
            if json:
                print_json({"name": line["name"]} if names else line)
            else:
                print(line["name"])
        return
    headings = ("table", "stream", "type", "state", "rows", "visible", "last write")
    table = TextTable(*headings, right=("rows", "visible"))
    for line in lines:
        cells = (line["table"], line["id"], line["type"] or "", line["state"] or "")
        table.add(*cells, f"{line['rows']:,}", f"{line['visible']:,}", moment(line["last_write"]))
    print_lines(table)


def _shown(dataset: str, store: Store) -> dict[str, VisibleRows]:
    try:
        opened = open_dataset(dataset, store)
    except NotFoundError:
        return {}
    found: dict[str, VisibleRows] = {}
    for snapshot in opened.history():
        for stream, rows in _rows(snapshot.metadata.get(METADATA)).items():
            if stream not in found or rows > found[stream].rows:
                found[stream] = VisibleRows(rows, snapshot.created_at)
    return found


def _rows(written: Any) -> dict[str, int]:
    """The rows of each stream in a snapshot's metadata, which any writer may fill with other values."""
    streams = written.get("streams") if isinstance(written, dict) else None
    if not isinstance(streams, dict):
        return {}
    return {stream: rows for stream, rows in streams.items() if isinstance(rows, int)}


def _line(log: LogSummary, shown: VisibleRows | None) -> dict[str, Any]:
    facts = log.facts
    name, kind = parse_stream(facts["name"]), StreamType[facts["type"]]
    visible = shown.rows if shown else 0
    rows = log.end if select_strategy(kind).stages else visible
    return {
        "table": name.table.short,
        "dataset": facts["dataset"],
        "name": str(name),
        "id": name.stream,
        "type": kind.name,
        "state": _state(kind, log.marks, shown).value,
        "rows": rows,
        "visible": visible,
        "last_write": shown.at if shown is not None and rows == visible else log.written,
    }


def _line_without_log(dataset: str, stream: str, shown: VisibleRows) -> dict[str, Any]:
    """The line of a stream that has expired, or whose state directory is elsewhere."""
    line = {"table": dataset, "dataset": dataset, "name": stream, "id": stream, "type": None, "state": None}
    return {**line, "rows": shown.rows, "visible": shown.rows, "last_write": shown.at}


def _state(kind: StreamType, marks: Mapping[str, Any], shown: VisibleRows | None) -> State:
    if kind is StreamType.PENDING and shown is not None:
        return State.COMMITTED
    return State.FINALIZED if marks.get("finalized") else State.OPEN
