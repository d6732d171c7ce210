"""The first rows of a snapshot, or the first bytes of a blob."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from lode.codec.arrow_to_json import batch_records
from lode.read.files import decode_file, open_plain
from lode.read.which import ExactId
from lode.snapshot import Snapshot
from lode.ui.cells import is_number, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lode.dataset import Dataset
    from lode.read.scan import Scan
    from lode.ui.timeline import View

MOST_ROWS: Final = 200
MOST_COLUMNS: Final = 60
_BLOB_BYTES: Final = 1024


def sample(dataset: Dataset, snapshot: Snapshot, *, limit: int) -> dict[str, Any]:
    """Rows as a table of texts; nothing after the last of them is read."""
    return sample_of(dataset.plan_snapshot(snapshot), limit=limit)


def newest_sample(view: View, *, limit: int) -> dict[str, Any]:
    """Rows of the newest snapshot that has some, under the names that columns have now."""
    line = next((line for line in reversed(view.lines) if line.files), view.lines[-1])
    newest = Snapshot(view.newest)
    if line.id == newest.id:
        scan = view.dataset.plan_snapshot(newest)
    else:
        older = view.dataset.snapshot(ExactId(line.id))
        # Snapshots of version 0.1 may differ from the newest in everything: they are read as they say.
        plan = view.dataset.plan_snapshot(newest if older.manifest.definition is not None else older)
        scan = plan.of([older.manifest])
    return {
        "snapshot": line.id,
        "short": view.short(line.id),
        "sequence": line.sequence,
        **sample_of(scan, limit=limit),
    }


def sample_of(scan: Scan, *, limit: int) -> dict[str, Any]:
    """The first rows of a scan, or the first bytes of its first blob."""
    if scan.components.codec is None:
        return {"blob": _blob(scan)}
    limit = max(1, min(limit, MOST_ROWS))
    rows = list(islice(_records(scan, limit + 1), limit + 1))
    records = [row if isinstance(row, dict) else {"value": row} for row in rows[:limit]]
    names = _columns(scan, records)
    shown = names[:MOST_COLUMNS]
    return {
        "columns": [
            {"name": name, "numeric": _is_numeric([record.get(name) for record in records])} for name in shown
        ],
        "columns_total": len(names),
        "rows": [[text_of(record.get(name)) for name in shown] for record in records],
        "more": len(rows) > limit,
    }


def _records(scan: Scan, most: int) -> Iterator[Any]:
    for file, names in scan.files_with_names():
        for chunk in decode_file(scan.store, file, scan.components):
            # Not more of a batch than is shown becomes Python objects.
            rows = chunk if isinstance(chunk, list) else batch_records(chunk.slice(0, most), first_row=0)
            for row in rows:
                yield _named_now(row, names)


def _named_now(row: Any, names: dict[str, str | None] | None) -> Any:
    """The row under the names that its columns have now."""
    if names is None or not isinstance(row, dict):
        return row
    return {now: None if then is None else row.get(then) for now, then in names.items()}


def _columns(scan: Scan, records: list[dict[str, Any]]) -> list[str]:
    """The declared columns, or all that the records have: files may still hold dropped columns."""
    if scan.definition is not None and scan.definition.columns is not None:
        return [column.name for column in scan.definition.columns]
    return list(dict.fromkeys(name for record in records for name in record))


def _is_numeric(values: list[Any]) -> bool:
    known = [value for value in values if value is not None]
    return bool(known) and all(is_number(value) for value in known)


def _blob(scan: Scan) -> dict[str, Any]:
    data = b""
    if scan.files:
        with open_plain(scan.store, scan.files[0], scan.components) as plain:
            data = plain.read(_BLOB_BYTES + 1)
    head = data[:_BLOB_BYTES]
    # A cut in the middle of a character does not make text binary.
    text = head.decode("utf-8", "ignore")
    is_text = len(text.encode()) > len(head) - 4 and all(
        char.isprintable() or char in "\r\n\t" for char in text
    )
    return {
        "text": text if is_text else None,
        "hex": None if is_text else head[:256].hex(" ", 1),
        "more": len(data) > len(head) or len(scan.files) > 1,
    }
