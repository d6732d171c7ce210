"""``lode ls``: the datasets and volumes of a store, the partitions of a dataset, or write streams."""

from __future__ import annotations

import sys
from pathlib import Path  # noqa: TC003, typer reads the types of parameters
from typing import TYPE_CHECKING, Any, Final

import typer

from lode.cli.failure import FAILED
from lode.cli.parameters import JSON_LINES, ROOT, STORE_OPTION, complete_dataset, open_root
from lode.cli.terminal import TextTable, print_json, print_lines, printable, progress
from lode.errors import LodeError
from lode.units import count, moment, size

if TYPE_CHECKING:
    from lode.dataset import Dataset
    from lode.describe import Partition
    from lode.store.protocol import Store

_DATASET: Final[Any] = typer.Argument(
    None, metavar="DATASET", help="List the partitions of this dataset.", autocompletion=complete_dataset
)
_NAMES: Final[Any] = typer.Option(False, "--names", "-q", help="Print only names.")
_STREAMS: Final[Any] = typer.Option(
    False, "--streams", "-s", help="List write streams of the ingest server, of all tables or of one."
)
_STATE: Final[Any] = typer.Option(
    None, "--state", metavar="DIR", help="The server's state directory. Not needed for a local lake."
)


def ls(
    dataset: str | None = _DATASET,
    root: str = ROOT,
    names: bool = _NAMES,
    streams: bool = _STREAMS,
    state: Path | None = _STATE,
    json: bool = JSON_LINES,
    store_option: list[str] = STORE_OPTION,
) -> None:
    """List datasets and volumes, the partitions of a dataset, or write streams."""
    from lode.discover import open_dataset

    store = open_root(root, store_option)
    if streams:
        _list_streams(store, dataset, state, names=names, json=json)
    elif dataset is not None:
        _list_partitions(open_dataset(dataset, store), names=names, json=json)
    elif names:
        _list_names(store, json=json)
    else:
        _list_store(store, state, json=json)


def _list_streams(store: Store, dataset: str | None, state: Path | None, *, names: bool, json: bool) -> None:
    from lode.cli.streams import logs_in, print_streams, state_of, streams_of
    from lode.discover import open_dataset

    lines, faults = streams_of(store, dataset, logs_in(state_of(store, state)))
    if not lines and dataset is not None:
        open_dataset(dataset, store)  # raises an error if there is no such dataset
    if json and not names:
        lines += faults
    if lines or names or json:
        print_streams(lines, names=names, json=json)
    elif not faults:
        print(f"no write streams in {store.url}: a server elsewhere has its own --state")
    _exit_on_faults(faults)


def _list_names(store: Store, *, json: bool) -> None:
    from lode.discover import dataset_names, volume_names

    for name in (*dataset_names(store), *volume_names(store)):
        if json:
            print_json({"name": name})
        else:
            print(name)


def _list_store(store: Store, state: Path | None, *, json: bool) -> None:
    from lode.discover import dataset_names, volume_names

    found: list[dict[str, Any]] = []
    listed = [("dataset", _dataset_line, name) for name in dataset_names(store)]
    listed += [("volume", _volume_line, name) for name in volume_names(store)]
    with progress("listing", "datasets and volumes") as advance:
        for kind, line_of, name in listed:
            try:
                found.append(line_of(store, name))
            except LodeError as error:  # a damaged dataset does not hide the others
                found.append({"name": name, "kind": kind, "error": str(error)})
            advance(len(found), len(listed))
    if json:
        for line in found:
            print_json(line)
    else:
        _print_store(store, found)
    _exit_on_faults(found)
    if not json:
        from lode.cli.streams import logs_in, state_of

        if number := len(logs_in(state_of(store, state))):
            print(f"\nand {count(number, 'write stream')}: see lode ls --streams")


def _exit_on_faults(lines: list[dict[str, Any]]) -> None:
    """Print the errors of lines that have one; exit with code 1 if there are any."""
    faults = [line["error"] for line in lines if "error" in line]
    for fault in faults:
        print(f"lode: {printable(fault)}", file=sys.stderr)
    if faults:
        raise typer.Exit(FAILED)


def _print_store(store: Store, found: list[dict[str, Any]]) -> None:
    if not found:
        print(f"no datasets to list in {store.url}: those of a flat layout can only be named")
        return
    numbers = ("snapshots", "rows", "size")
    table = TextTable("name", "kind", *numbers, "last write", right=numbers)
    for line in found:
        if "error" in line:
            table.add(line["name"], "cannot be read", "", "", "", "")
            continue
        rows = "" if line["rows"] is None else f"{line['rows']:,}"
        kind = line["kind"] + (f" by {', '.join(line['partitioned_by'])}" if line["partitioned_by"] else "")
        cells = (line["name"], kind, f"{line['snapshots']:,}", rows, size(line["bytes"]))
        table.add(*cells, moment(line["last_write"]))
    print_lines(table)


def _dataset_line(store: Store, name: str) -> dict[str, Any]:
    from lode.describe import history_length
    from lode.discover import open_dataset

    dataset = open_dataset(name, store)
    newest = dataset.latest()
    plan = dataset.plan(as_of=newest)
    return {
        "name": dataset.id,
        "kind": dataset.components.codec.name if dataset.components.codec else "blobs",
        "snapshots": history_length(dataset, newest),
        "files": len(plan.paths),
        "rows": plan.row_count,
        "bytes": plan.size_bytes,
        "last_write": newest.created_at,
        "latest": newest.id,
        "partitioned_by": list(dataset.layout.keys),
    }


def _volume_line(store: Store, name: str) -> dict[str, Any]:
    from lode.discover import open_volume

    volume = open_volume(name, store)
    newest = volume.latest()
    return {
        "name": name,
        "kind": "volume",
        "snapshots": volume.chain.length_at(newest.manifest),
        "files": len(newest.blocks),
        "rows": None,
        "bytes": newest.size_bytes,
        "last_write": newest.created_at,
        "latest": newest.id,
        "partitioned_by": [],
    }


def partition_json(part: Partition) -> dict[str, Any]:
    return {
        "snapshots": part.snapshots,
        "files": part.files,
        "rows": part.rows,
        "bytes": part.bytes,
        "last_write": part.last_write,
    }


def _list_partitions(dataset: Dataset, *, names: bool, json: bool) -> None:
    from lode.describe import partitions_of_all

    found = partitions_of_all(dataset, dataset.plan().manifests)
    if names and not json:
        for name in found:
            print(name)
        return
    if json:
        for name, part in found.items():
            print_json({"partition": name} if names else {"partition": name, **partition_json(part)})
        return
    numbers = ("snapshots", "files", "rows", "size")
    table = TextTable("partition", *numbers, "last write", right=numbers)
    for name, part in found.items():
        rows = "?" if part.rows is None else f"{part.rows:,}"
        cells = (f"{part.snapshots:,}", f"{part.files:,}", rows, size(part.bytes))
        table.add(name or "(not partitioned)", *cells, moment(part.last_write))
    print_lines(table)
