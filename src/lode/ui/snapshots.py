"""What the console tells about one snapshot: its files, partitions, statistics and metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from lode.format.manifest import json_text
from lode.ui.cells import text_of

if TYPE_CHECKING:
    from lode.format.manifest import ColumnStats, FileRef
    from lode.snapshot import Snapshot
    from lode.ui.timeline import View

MOST_FILES: Final = 200
MOST_PARTITIONS: Final = 200
MOST_COLUMNS: Final = 200
MOST_METADATA: Final = 100
_LONGEST_METADATA: Final = 4_000


def describe(view: View, snapshot: Snapshot) -> dict[str, Any]:
    """Everything but the rows; long lists are cut, and their whole length told."""
    dataset, manifest = view.dataset, snapshot.manifest
    sequence = dataset.chain.sequence_of(manifest)
    here, after = view.line(sequence), view.line(sequence + 1)
    root = f"{dataset.chain.paths.root}/"
    partitions = _partitions(view, snapshot)
    columns = _columns(snapshot)
    return {
        "dataset": dataset.id,
        "sequence": sequence,
        "id": snapshot.id,
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
        "partitions_total": len(partitions),
        "partitions": partitions[:MOST_PARTITIONS],
        "columns_total": len(columns),
        "columns": columns[:MOST_COLUMNS],
    }


def _partitions(view: View, snapshot: Snapshot) -> list[dict[str, Any]]:
    """What lies in each partition; ``rows`` is None where a codec did not count them."""
    dataset = view.dataset
    found: dict[str, list[FileRef]] = {}
    for file in snapshot.files if dataset.layout.keys else ():
        found.setdefault(dataset.layout.partition_of(dataset.id, file.path), []).append(file)
    return [
        {
            "partition": name,
            "files": len(files),
            "rows": sum(file.stats.row_count for file in files if file.stats)
            if all(file.stats for file in files)
            else None,
            "bytes": sum(file.size_bytes for file in files),
        }
        for name, files in sorted(found.items())
    ]


def _columns(snapshot: Snapshot) -> list[dict[str, Any]]:
    """Each column over all files: the least, the greatest, how many nulls, how many files know it."""
    found: dict[str, list[ColumnStats]] = {}
    for file in snapshot.files:
        for column in file.stats.columns if file.stats else ():
            found.setdefault(column.name, []).append(column)
    return [
        {
            "name": name,
            "min": text_of(_extreme(min, [column.min for column in of])),
            "max": text_of(_extreme(max, [column.max for column in of])),
            "nulls": sum(column.null_count for column in of),
            "files": len(of),
        }
        for name, of in found.items()
    ]


def _extreme(choose: Any, values: list[Any]) -> Any:
    known = [value for value in values if value is not None]
    try:
        return choose(known) if known else None
    except TypeError:
        return None  # files that disagree about a column's type have no order between them


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else msgspec.json.format(json_text(value))
    return text if len(text) <= _LONGEST_METADATA else f"{text[:_LONGEST_METADATA]}…"
