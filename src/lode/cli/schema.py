"""``lode schema``: the columns of a dataset and how it is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lode.cli.parameters import AS_OF, DATASET, JSON, ROOT, STORE_OPTION, open_root
from lode.cli.terminal import TextTable, facts, print_json, print_lines
from lode.errors import InvalidOptionError, NotFoundError

if TYPE_CHECKING:
    from lode.dataset import Dataset
    from lode.definition import Definition
    from lode.store.protocol import Store


def schema(
    dataset: str = DATASET,
    root: str = ROOT,
    as_of: str | None = AS_OF,
    json: bool = JSON,
    store_option: list[str] = STORE_OPTION,
) -> None:
    """Show the columns of a dataset, and how it is stored."""
    opened = _open(dataset, open_root(root, store_option))
    snapshot = opened.snapshot("latest" if as_of is None else as_of)
    definition = opened.definition_at(snapshot)
    described = _described(opened, definition, snapshot.id)
    if json:
        print_json(described)
        return
    shown = [(name, value) for name, value in _facts(described) if value]
    columns = _columns(described["columns"]) if definition.columns else _no_columns(opened, definition)
    print_lines(*facts(shown), "", columns)


def _open(name: str, store: Store) -> Dataset:
    from lode.discover import is_volume, open_dataset

    try:
        return open_dataset(name, store)
    except NotFoundError:
        if not is_volume(store, name):
            raise
    raise InvalidOptionError(
        f"{name!r} is a volume, which has bytes and no columns: see lode show {name} --volume"
    )


def _described(dataset: Dataset, definition: Definition, snapshot: str) -> dict[str, Any]:
    keys = definition.keys
    return {
        "dataset": dataset.id,
        "snapshot": snapshot,
        "columns": None
        if definition.columns is None
        else [
            {
                "name": column.name,
                "type": column.type_text,
                "nullable": column.nullable,
                "partition": column.name in keys,
                "primary_key": column.name in definition.primary_key,
            }
            for column in definition.columns
        ],
        "partition_by": list(keys),
        "sort_by": list(definition.sort_by),
        "primary_key": list(definition.primary_key),
        "timestamp_column": definition.timestamp_column,
        "format": definition.format_version,
        "layout": definition.layout,
        "codec": definition.codec,
        "compressor": definition.compressor,
        "checksum": definition.checksum,
        "description": definition.description,
    }


def _facts(described: dict[str, Any]) -> list[tuple[str, object]]:
    compressor = described["compressor"]
    return [
        ("dataset", described["dataset"]),
        ("snapshot", described["snapshot"]),
        ("codec", described["codec"] or "none, blobs"),
        ("compressor", "" if compressor == "noop" else compressor),
        ("checksum", described["checksum"]),
        ("layout", described["layout"]),
        ("format", described["format"]),
        ("partitioned by", ", ".join(described["partition_by"])),
        ("sorted by", ", ".join(described["sort_by"])),
        ("primary key", ", ".join(described["primary_key"])),
        ("timestamp", described["timestamp_column"]),
        ("description", described["description"]),
    ]


def _columns(columns: list[dict[str, Any]]) -> TextTable:
    keys = any(column["partition"] or column["primary_key"] for column in columns)
    table = TextTable("column", "type", "nulls", *(["key"] if keys else []))
    for column in columns:
        roles = [role for role in ("partition", "primary_key") if column[role]]
        cells = [column["name"], column["type"], "allowed" if column["nullable"] else "refused"]
        table.add(*cells, *([", ".join(roles).replace("_", " ")] if keys else []))
    return table


def _no_columns(dataset: Dataset, definition: Definition) -> str:
    from lode.codec.components import codec_named
    from lode.codec.protocol import takes_any_record

    if definition.codec is None:
        return f"{dataset.id} stores blobs, which have no columns"
    if takes_any_record(codec_named(definition.codec)):
        return f"{dataset.id} has no schema: its records may have any shape"
    return f"{dataset.id} has no columns yet: its first rows decide them"
