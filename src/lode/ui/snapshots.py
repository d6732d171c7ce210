"""What the console says about one snapshot: its files, columns, statistics and metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from lode.format.manifest import json_text
from lode.ui.cells import text_of
from lode.ui.datasets import UNKNOWN, definition_of
from lode.ui.snippets import Target, kind_of, snippets

if TYPE_CHECKING:
    from lode.format.manifest import ColumnStats
    from lode.snapshot import Snapshot
    from lode.ui.timeline import View

MOST_FILES: Final = 200
MOST_COLUMNS: Final = 200
MOST_METADATA: Final = 100
_LONGEST_METADATA: Final = 4_000


def describe(view: View, snapshot: Snapshot) -> dict[str, Any]:
    """Everything but the rows and partitions; long lists are cut, and their length is part of the answer."""
    dataset, manifest = view.dataset, snapshot.manifest
    sequence = dataset.chain.sequence_of(manifest)
    here, after = view.line(sequence), view.line(sequence + 1)
    root = f"{dataset.chain.paths.root}/"
    # Snapshots of version 0.1 and of Go refer to no definition: their files say which columns they have.
    definition = definition_of(view, manifest) if manifest.definition is not None else UNKNOWN
    columns = _columns(snapshot, definition["columns"])
    kind = kind_of(manifest.codec, has_columns=bool(definition["columns"]))
    url = dataset.store.url
    return {
        "dataset": dataset.id,
        "sequence": sequence,
        "id": snapshot.id,
        "short": view.short(snapshot.id),
        "parent": snapshot.parent_id,
        "child": after.id if after else None,
        "of": view.last,
        "created_at": manifest.created_at,
        "rebased": here.rebased if here else snapshot.rebases,
        "writer": snapshot.writer,
        "operation": manifest.operation,
        "rows": snapshot.row_count,
        "bytes": snapshot.size_bytes,
        "codec": manifest.codec,
        "compressor": manifest.compressor,
        "checksum": manifest.checksum_algorithm,
        "min_timestamp": manifest.min_timestamp,
        "max_timestamp": manifest.max_timestamp,
        "idempotency": list(manifest.idempotency) if manifest.idempotency else None,
        "metadata": [[key, _shown(value)] for key, value in manifest.metadata.items()][:MOST_METADATA],
        "metadata_total": len(manifest.metadata),
        "problem": definition["problem"],
        "open": snippets(Target(url, dataset.id, kind, snapshot.id, sequence)),
        "partitioned_by": list(dataset.layout.keys),
        "files_total": len(snapshot.files),
        "files": [
            {
                "path": file.path.removeprefix(root),
                "bytes": file.size_bytes,
                "rows": file.stats.row_count if file.stats else None,
                "checksum": file.checksum,
            }
            for file in snapshot.files[:MOST_FILES]
        ],
        "columns_total": max(len(columns), definition["columns_total"]),
        "columns": columns[:MOST_COLUMNS],
    }


def _columns(snapshot: Snapshot, declared: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The declared columns with what the files say about them, then columns that only files have.

    ``min`` and ``max`` are over all files that recorded them, ``nulls`` is None if none did.
    """
    found: dict[str, list[ColumnStats]] = {}
    for file in snapshot.files:
        for column in file.stats.columns if file.stats else ():
            found.setdefault(column.name, []).append(column)
    names = {column["name"] for column in declared}
    others: list[dict[str, Any]] = [
        {"name": name, "type": None, "nullable": None, "roles": []} for name in found if name not in names
    ]
    return [{**column, **_statistics(found.get(column["name"], []))} for column in [*declared, *others]]


def _statistics(of: list[ColumnStats]) -> dict[str, Any]:
    return {
        "min": text_of(_extreme(min, [column.min for column in of])),
        "max": text_of(_extreme(max, [column.max for column in of])),
        "nulls": sum(column.null_count for column in of) if of else None,
    }


def _extreme(choose: Any, values: list[Any]) -> Any:
    known = [value for value in values if value is not None]
    try:
        return choose(known) if known else None
    except TypeError:
        return None  # files that disagree about a column's type have no order between them


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else msgspec.json.format(json_text(value))
    return text if len(text) <= _LONGEST_METADATA else f"{text[:_LONGEST_METADATA]}…"
