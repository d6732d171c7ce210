"""One snapshot in the console: its files, columns, statistics and metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from lode.describe import amount, column_summaries
from lode.format.manifest import json_text
from lode.ui.datasets import UNKNOWN, definition_of
from lode.ui.sample import text_of
from lode.ui.snippets import SnippetTarget, kind_of, snippets

if TYPE_CHECKING:
    from lode.describe import ColumnSummary
    from lode.snapshot import Snapshot
    from lode.ui.timeline import HistoryView

MAX_FILES: Final = 200
MAX_COLUMNS: Final = 200
MAX_METADATA: Final = 100
MAX_REPLACED: Final = 20
_MAX_METADATA_LENGTH: Final = 4_000


def describe(view: HistoryView, snapshot: Snapshot) -> dict[str, Any]:
    """Everything but rows and partitions. Long lists are cut off; the answer has their full length."""
    dataset, manifest = view.dataset, snapshot.manifest
    sequence = dataset.chain.sequence_of(manifest)
    here, after = view.line(sequence), view.line(sequence + 1)
    root = f"{dataset.chain.paths.root}/"
    # Snapshots of version 0.1 and of Go have no definition, so their columns come from the files.
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
        "group": snapshot.group,
        "place": manifest.group.place,
        "writer": snapshot.writer,
        "operation": manifest.operation,
        "rows": snapshot.row_count,
        "bytes": snapshot.size_bytes,
        "removed": amount(manifest.removed),
        "replaced": list(manifest.removes.partitions[:MAX_REPLACED]) if manifest.removes else [],
        "replaced_total": len(manifest.removes.partitions) if manifest.removes else 0,
        "rewritten": len(manifest.carried),
        "restores": manifest.restores,
        "codec": manifest.codec,
        "compressor": manifest.compressor,
        "checksum": manifest.checksum_algorithm,
        "min_timestamp": manifest.min_timestamp,
        "max_timestamp": manifest.max_timestamp,
        "idempotency": list(manifest.idempotency) if manifest.idempotency else None,
        "metadata": [[key, _shown(value)] for key, value in manifest.metadata.items()][:MAX_METADATA],
        "metadata_total": len(manifest.metadata),
        "problem": definition["problem"],
        "open": snippets(SnippetTarget(url, dataset.id, kind, snapshot.id, sequence)),
        "partitioned_by": list(dataset.layout.keys),
        "files_total": len(snapshot.files),
        "files": [
            {
                "path": file.path.removeprefix(root),
                "bytes": file.size_bytes,
                "rows": file.stats.row_count if file.stats else None,
                "checksum": file.checksum,
            }
            for file in snapshot.files[:MAX_FILES]
        ],
        "columns_total": max(len(columns), definition["columns_total"]),
        "columns": columns[:MAX_COLUMNS],
    }


def _columns(snapshot: Snapshot, declared: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The declared columns with their statistics, then columns that only files have.

    ``min`` and ``max`` are over all files that recorded them, ``nulls`` is None if none did.
    """
    found = column_summaries(snapshot.files)
    names = {column["name"] for column in declared}
    others: list[dict[str, Any]] = [
        {"name": name, "type": None, "nullable": None, "roles": []} for name in found if name not in names
    ]
    return [{**column, **_statistics(found.get(column["name"]))} for column in [*declared, *others]]


def _statistics(of: ColumnSummary | None) -> dict[str, Any]:
    if of is None:
        return {"min": None, "max": None, "nulls": None}
    return {"min": text_of(of.min), "max": text_of(of.max), "nulls": of.null_count}


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else msgspec.json.format(json_text(value))
    return text if len(text) <= _MAX_METADATA_LENGTH else f"{text[:_MAX_METADATA_LENGTH]}…"
