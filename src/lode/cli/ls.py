"""``lode ls``: the datasets and volumes of a store, the partitions of one dataset, or write streams."""

from __future__ import annotations

import sys
from pathlib import Path  # noqa: TC003, typer reads the types of parameters
from typing import TYPE_CHECKING, Any, Final

import typer

from lode.cli.complete import offer_datasets
from lode.cli.failure import FAILED
from lode.cli.listing import Listing
from lode.cli.parameters import JSON_LINES, ROOT, STORE_OPTION
from lode.cli.printable import printable
from lode.cli.terminal import as_json, show
from lode.units import count, moment, size

if TYPE_CHECKING:
    from lode.dataset import Dataset
    from lode.store.protocol import Store

_DATASET: Final[Any] = typer.Argument(
    None, metavar="DATASET", help="List the partitions of this one.", autocompletion=offer_datasets
)
_NAMES: Final[Any] = typer.Option(False, "--names", "-q", help="Only names.")
_STREAMS: Final[Any] = typer.Option(
    False, "--streams", "-s", help="List write streams of the ingest server, of all tables or of one."
)
_STATE: Final[Any] = typer.Option(
    None, "--state", metavar="DIR", help="The server's state directory; a local lake's is found without."
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
    """List datasets and volumes, the partitions of one, or write streams."""
    from lode.cli.root import open_root
    from lode.discover import open_dataset

    store = open_root(root, store_option)
    if streams:
        _list_streams(store, dataset, state, names=names, json=json)
    elif dataset is None:
        _list_store(store, names=names, json=json)
        if not names and not json:
            _tell_of_streams(store, state)
    else:
        _list_partitions(open_dataset(dataset, store), names=names, json=json)


def _list_streams(store: Store, dataset: str | None, state: Path | None, *, names: bool, json: bool) -> None:
    from lode.cli.streams import logs_in, show_streams, state_of, streams_of
    from lode.discover import open_dataset

    lines, faults = streams_of(store, dataset, logs_in(state_of(store, state)))
    if not lines and dataset is not None:
        open_dataset(dataset, store)  # says so if there is no such thing
    if json and not names:
        lines += faults
    if lines or names or json:
        show_streams(lines, names=names, json=json)
    elif not faults:
        print(f"no write streams in {store.url}: a server elsewhere has its own --state")
    _end_with_faults(faults)


def _tell_of_streams(store: Store, state: Path | None) -> None:
    from lode.cli.streams import logs_in, state_of

    number = len(logs_in(state_of(store, state)))
    if number:
        print(f"\nand {count(number, 'write stream')}: see lode ls --streams")


def _list_store(store: Store, *, names: bool, json: bool) -> None:
    from lode.discover import dataset_names, volume_names
    from lode.errors import LodeError

    datasets = dataset_names(store)
    if names:
        for name in (*datasets, *volume_names(store)):
            if json:
                as_json({"name": name})
            else:
                print(name)
        return
    found: list[dict[str, Any]] = []
    listed = [("dataset", _dataset_line, name) for name in datasets]
    listed += [("volume", _volume_line, name) for name in volume_names(store)]
    for kind, line_of, name in listed:
        try:
            found.append(line_of(store, name))
        except LodeError as error:  # one that cannot be read does not hide the others
            found.append({"name": name, "kind": kind, "error": str(error)})
    _show_store(store, found, json=json)
    _end_with_faults(found)


def _end_with_faults(lines: list[dict[str, Any]]) -> None:
    """Print why a line has no facts; exit with code 1 if there is such a line."""
    faults = [line["error"] for line in lines if "error" in line]
    for fault in faults:
        print(f"lode: {printable(fault)}", file=sys.stderr)
    if faults:
        raise typer.Exit(FAILED)


def _show_store(store: Store, found: list[dict[str, Any]], *, json: bool) -> None:
    if json:
        for line in found:
            as_json(line)
        return
    if not found:
        print(f"no datasets to list in {store.url}: those of a flat layout can only be named")
        return
    listing = Listing(
        "name", "kind", "snapshots", "rows", "size", "last write", right=("snapshots", "rows", "size")
    )
    for line in found:
        if "error" in line:
            listing.add(line["name"], "cannot be read", "", "", "", "")
            continue
        rows = "" if line["rows"] is None else f"{line['rows']:,}"
        kind = line["kind"] + (f" by {', '.join(line['partitioned_by'])}" if line["partitioned_by"] else "")
        cells = (line["name"], kind, f"{line['snapshots']:,}", rows, size(line["bytes"]))
        listing.add(*cells, moment(line["last_write"]))
    show(listing)


def _dataset_line(store: Store, name: str) -> dict[str, Any]:
    from lode.discover import open_dataset

    dataset = open_dataset(name, store)
    newest = dataset.latest()
    plan = dataset.plan(as_of=newest)
    return {
        "name": dataset.id,
        "kind": dataset.components.codec.name if dataset.components.codec else "blobs",
        "snapshots": len(plan.manifests),
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
    snapshots = newest.sequence if newest.sequence is not None else len(volume.snapshots())
    return {
        "name": name,
        "kind": "volume",
        "snapshots": snapshots,
        "rows": None,
        "bytes": newest.size_bytes,
        "last_write": newest.created_at,
        "latest": newest.id,
        "partitioned_by": [],
    }


def _list_partitions(dataset: Dataset, *, names: bool, json: bool) -> None:
    from lode.cli.partitions import partitions_of

    found = partitions_of(dataset, dataset.snapshots())
    if names and not json:
        for name in found:
            print(name)
        return
    if json:
        for name, part in found.items():
            as_json({"partition": name} if names else {"partition": name, **part.as_dict()})
        return
    listing = Listing(
        "partition",
        "snapshots",
        "files",
        "rows",
        "size",
        "last write",
        right=("snapshots", "files", "rows", "size"),
    )
    for name, part in found.items():
        cells = (f"{part.snapshots:,}", f"{part.files:,}", part.rows_text, size(part.bytes))
        listing.add(name or "(not partitioned)", *cells, moment(part.last_write))
    show(listing)
