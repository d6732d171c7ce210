"""``lode ls``: the datasets and volumes of a store, or the partitions of one dataset."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import typer

from lode.cli.complete import dataset_names
from lode.cli.failure import FAILED
from lode.cli.listing import Listing
from lode.cli.parameters import JSON_LINES, ROOT, STORE_OPTION
from lode.cli.printable import printable
from lode.cli.terminal import as_json, show
from lode.cli.units import moment, size

if TYPE_CHECKING:
    from lode.dataset import Dataset
    from lode.store.protocol import Store

_DATASET: Final[Any] = typer.Argument(
    None, metavar="DATASET", help="List the partitions of this one.", autocompletion=dataset_names
)
_NAMES: Final[Any] = typer.Option(False, "--names", "-q", help="Only names of datasets or partitions.")


def ls(
    dataset: str | None = _DATASET,
    root: str = ROOT,
    names: bool = _NAMES,
    json: bool = JSON_LINES,
    store_option: list[str] = STORE_OPTION,
) -> None:
    """List datasets and volumes, or the partitions of one."""
    from lode.cli.opened import open_dataset, open_root

    store = open_root(root, store_option)
    if dataset is None:
        _list_store(store, names=names, json=json)
    else:
        _list_partitions(open_dataset(store, dataset), names=names, json=json)


def _list_store(store: Store, *, names: bool, json: bool) -> None:
    from lode.cli.opened import names_in, volumes_in
    from lode.errors import DataError

    datasets = names_in(store)
    if names:
        for name in datasets:
            if json:
                as_json({"name": name})
            else:
                print(name)
        return
    found, broken = [], []
    told = [(_dataset_line, name) for name in datasets] + [(_volume_line, name) for name in volumes_in(store)]
    for line_of, name in told:
        try:
            found.append(line_of(store, name))
        except DataError as error:  # one that is damaged does not hide the others
            broken.append(error)
    _show_store(store, found, json=json)
    for fault in broken:
        print(f"lode: {printable(str(fault))}", file=sys.stderr)
    if broken:
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
        rows = "" if line["rows"] is None else f"{line['rows']:,}"
        kind = line["kind"] + (f" by {', '.join(line['partitioned_by'])}" if line["partitioned_by"] else "")
        cells = (line["name"], kind, f"{line['snapshots']:,}", rows, size(line["bytes"]))
        listing.add(*cells, moment(line["last_write"]))
    show(listing)


def _dataset_line(store: Store, name: str) -> dict[str, Any]:
    from lode.cli.opened import open_dataset

    dataset = open_dataset(store, name)
    history = dataset.snapshots()
    return {
        "name": dataset.id,
        "kind": dataset.components.codec.name if dataset.components.codec else "blobs",
        "snapshots": len(history),
        "rows": sum(snapshot.row_count for snapshot in history),
        "bytes": sum(snapshot.size_bytes for snapshot in history),
        "last_write": history[-1].created_at,
        "latest": history[-1].id,
        "partitioned_by": list(dataset.layout.keys),
    }


def _volume_line(store: Store, name: str) -> dict[str, Any]:
    from lode.cli.opened import open_volume

    volume = open_volume(store, name)
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
