"""``lode show``: one snapshot, with its files and what is known about their columns."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import msgspec

from lode.cli.listing import Listing
from lode.cli.parameters import DATASET, JSON, ROOT, SNAPSHOT, STORE_OPTION, VOLUME
from lode.cli.terminal import brief, facts
from lode.cli.terminal import show as tell
from lode.format.manifest import json_text
from lode.units import count, moment, size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lode.dataset import Dataset
    from lode.definition import Definition
    from lode.format.manifest import ColumnStats
    from lode.snapshot import Snapshot
    from lode.store.protocol import Store


def show(
    dataset: str = DATASET,
    snapshot: str = SNAPSHOT,
    root: str = ROOT,
    volume: bool = VOLUME,
    json: bool = JSON,
    store_option: list[str] = STORE_OPTION,
) -> None:
    """Show one snapshot: what the dataset was at it, its files and what is in them.

    As JSON: the manifest, with the definition of the dataset in it.
    """
    from lode.cli.columns import definition_as_json
    from lode.cli.root import open_root
    from lode.definition import Definition, layout_name
    from lode.discover import open_dataset
    from lode.errors import DataError
    from lode.format.manifest import encode_manifest

    store = open_root(root, store_option)
    if volume:
        _show_volume(store, dataset, snapshot, json=json)
        return
    opened = open_dataset(dataset, store)
    found = opened.snapshot(snapshot)
    try:
        definition, damage = opened.definition_at(found), None
    except DataError as error:  # the snapshot itself can still be shown
        definition, damage = Definition(layout=layout_name(opened.layout), keys=opened.layout.keys), error
    if json:
        told = None if damage else definition_as_json(definition)
        whole = {**msgspec.to_builtins(found.manifest), "definition": told}
        sys.stdout.write(f"{encode_manifest(whole).decode()}\n")
    else:
        _show_dataset(opened, found, definition)
    if damage is not None:
        raise damage


def _show_dataset(dataset: Dataset, snapshot: Snapshot, definition: Definition) -> None:
    files = Listing("size", "rows", "checksum", "file", right=("size", "rows"))
    root = f"{dataset.chain.paths.root}/"
    for file in snapshot.files:
        rows = f"{file.stats.row_count:,}" if file.stats else ""
        checksum = (file.checksum or "")[:12]
        files.add(size(file.size_bytes), rows, checksum, file.path.removeprefix(root))
    parts: list[Any] = [*facts(_facts(dataset, snapshot, definition))]
    columns = _columns(snapshot, definition)
    for listing in (columns, files):
        if len(listing):
            parts += ["", listing]
    tell(*parts)


def _columns(snapshot: Snapshot, definition: Definition) -> Listing:
    """The columns of the dataset, with what this snapshot has in them if its files say so."""
    from lode.cli.columns import type_text

    types = {column.name: type_text(column) for column in definition.columns or ()}
    stats = {name: rest for name, *rest in _statistics(snapshot)}
    if not stats:
        plain = Listing("column", "type")
        for name, kind in types.items():
            plain.add(name, kind)
        return plain
    listing = Listing("column", "type", "min", "max", "nulls", right=("nulls",))
    for name in [*types, *(name for name in stats if name not in types)]:
        low, high, nulls = stats.get(name, (None, None, None))
        listing.add(
            name, types.get(name, ""), _shown(low), _shown(high), "" if nulls is None else f"{nulls:,}"
        )
    return listing


def _facts(dataset: Dataset, snapshot: Snapshot, definition: Definition) -> Iterator[tuple[str, object]]:
    manifest = snapshot.manifest
    yield "snapshot", snapshot.id
    yield "dataset", dataset.id
    yield "number", f"{dataset.chain.sequence_of(manifest):,}"
    yield "parent", snapshot.parent_id or "none, it is the first"
    yield "time", moment(snapshot.created_at)
    if manifest.operation != "append":
        yield "operation", manifest.operation
    rows = count(snapshot.row_count, "row")
    yield "holds", f"{rows}, {count(len(snapshot.files), 'file')}, {size(snapshot.size_bytes)}"
    if snapshot.min_timestamp and snapshot.max_timestamp:
        yield "covers", f"{moment(snapshot.min_timestamp)} to {moment(snapshot.max_timestamp)}"
    yield "codec", manifest.codec or "none, blobs"
    if manifest.compressor != "noop":
        yield "compressor", manifest.compressor
    if manifest.checksum_algorithm:
        yield "checksum", manifest.checksum_algorithm
    yield "layout", definition.layout
    for what, value in (
        ("partitions", ", ".join(definition.keys)),
        ("timestamp", definition.timestamp_column),
        ("sorted by", ", ".join(definition.sort_by)),
        ("primary key", ", ".join(definition.primary_key)),
        ("description", definition.description),
        ("properties", brief(definition.properties)),
    ):
        if value:
            yield what, value
    if manifest.idempotency:
        yield "key", "/".join(part for part in manifest.idempotency if part)
    if manifest.metadata:
        yield "metadata", brief(manifest.metadata)


def _statistics(snapshot: Snapshot) -> list[tuple[str, Any, Any, int]]:
    """Each column over all files: the least, the greatest, and how many are null."""
    columns: dict[str, list[ColumnStats]] = {}
    for file in snapshot.files:
        for column in file.stats.columns if file.stats else ():
            columns.setdefault(column.name, []).append(column)
    return [
        (
            name,
            _extreme(min, [column.min for column in found]),
            _extreme(max, [column.max for column in found]),
            sum(column.null_count for column in found),
        )
        for name, found in columns.items()
    ]


def _extreme(choose: Any, values: list[Any]) -> Any:
    known = [value for value in values if value is not None]
    try:
        return choose(known) if known else None
    except TypeError:
        return None  # files that disagree about a column's type have no order between them


def _shown(value: Any, most: int = 32) -> str:
    text = "" if value is None else str(value) if not isinstance(value, dict | list) else json_text(value)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _show_volume(store: Store, name: str, snapshot: str, *, json: bool) -> None:
    from lode.discover import open_volume
    from lode.format.manifest import encode_manifest

    volume = open_volume(name, store)
    found = volume.snapshot(snapshot)
    if json:
        sys.stdout.write(f"{encode_manifest(found.manifest).decode()}\n")
        return
    gaps = volume.missing(found)
    told: list[tuple[str, object]] = [
        ("snapshot", found.id),
        ("volume", volume.id),
        ("parent", found.parent_id or "none, it is the first"),
        ("time", moment(found.created_at)),
        ("holds", f"{size(found.size_bytes)} of {size(volume.total_length)} in {len(found.blocks):,} blocks"),
        (
            "missing",
            f"{size(sum(length for _, length in gaps))} in {len(gaps):,} gaps" if gaps else "nothing",
        ),
    ]
    if found.metadata:
        told.append(("metadata", brief(found.metadata)))
    blocks = Listing("offset", "length", "block", right=("offset", "length"))
    for block in found.blocks:
        blocks.add(f"{block.offset:,}", f"{block.length:,}", block.path.rpartition("/")[2])
    tell(*facts(told), "", blocks)
