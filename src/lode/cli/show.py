"""``lode show``: one snapshot, with its files and the statistics of their columns."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import msgspec

from lode.cli.columns import columns_table, definition_as_json, type_text
from lode.cli.parameters import DATASET, JSON, ROOT, SNAPSHOT, STORE_OPTION, VOLUME, open_root
from lode.cli.terminal import TextTable, brief, facts, print_lines
from lode.format.manifest import json_text
from lode.units import count, moment, size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lode.dataset import Dataset
    from lode.definition import Definition
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
    """Show one snapshot: the definition of the dataset at it, its files and their columns.

    As JSON: the manifest, with the definition of the dataset in it.
    """
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
        stored = None if damage else definition_as_json(definition)
        whole = {**msgspec.to_builtins(found.manifest), "definition": stored}
        sys.stdout.write(f"{encode_manifest(whole).decode()}\n")
    else:
        _show_dataset(opened, found, definition)
    if damage is not None:
        raise damage


def _show_dataset(dataset: Dataset, snapshot: Snapshot, definition: Definition) -> None:
    files = TextTable("size", "rows", "checksum", "file", right=("size", "rows"))
    root = f"{dataset.chain.paths.root}/"
    for file in snapshot.files:
        rows = f"{file.stats.row_count:,}" if file.stats else ""
        checksum = (file.checksum or "")[:12]
        files.add(size(file.size_bytes), rows, checksum, file.path.removeprefix(root))
    parts: list[Any] = [*facts(_facts(dataset, snapshot, definition))]
    columns = _columns(snapshot, definition)
    for table in (columns, files):
        if len(table):
            parts += ["", table]
    print_lines(*parts)


def _columns(snapshot: Snapshot, definition: Definition) -> TextTable:
    """The columns of the dataset, with the statistics of this snapshot if its files have some."""
    from lode.describe import column_summaries

    types = {column.name: type_text(column) for column in definition.columns or ()}
    summaries = column_summaries(snapshot.files)
    if not summaries:
        return columns_table(definition)
    table = TextTable("column", "type", "min", "max", "nulls", right=("nulls",))
    for name in [*types, *(name for name in summaries if name not in types)]:
        found = summaries.get(name)
        cells = (_shown(found.min), _shown(found.max), f"{found.null_count:,}") if found else ("", "", "")
        table.add(name, types.get(name, ""), *cells)
    return table


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
    if manifest.removed.files:
        gone = manifest.removed
        yield "removes", f"{count(gone.rows, 'row')}, {count(gone.files, 'file')}, {size(gone.bytes)}"
    if manifest.removes is not None and manifest.removes.partitions:
        yield "replaces", ", ".join(name or "everything" for name in manifest.removes.partitions)
    if manifest.carried:
        yield "rewritten", f"{count(len(manifest.carried), 'file')} with rows of removed files"
    if manifest.restores is not None:
        yield "restores", manifest.restores
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


def _shown(value: Any, limit: int = 32) -> str:
    text = "" if value is None else str(value) if not isinstance(value, dict | list) else json_text(value)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _show_volume(store: Store, name: str, snapshot: str, *, json: bool) -> None:
    from lode.discover import open_volume
    from lode.format.manifest import encode_manifest

    volume = open_volume(name, store)
    found = volume.snapshot(snapshot)
    if json:
        sys.stdout.write(f"{encode_manifest(found.manifest).decode()}\n")
        return
    gaps = volume.missing(found)
    known: list[tuple[str, object]] = [
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
        known.append(("metadata", brief(found.metadata)))
    blocks = TextTable("offset", "length", "block", right=("offset", "length"))
    for block in found.blocks:
        blocks.add(f"{block.offset:,}", f"{block.length:,}", block.path.rpartition("/")[2])
    print_lines(*facts(known), "", blocks)
