"""The first rows of a snapshot, or the first bytes of a blob."""

from __future__ import annotations

from decimal import Decimal
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from lode.codec.arrow_to_json import batch_records
from lode.describe import are_numbers
from lode.format.manifest import json_text
from lode.read.files import decode_file, open_plain
from lode.read.which import ExactId
from lode.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lode.dataset import Dataset
    from lode.read.scan import Scan
    from lode.ui.timeline import HistoryView

MAX_ROWS: Final = 200
MAX_COLUMNS: Final = 60
MAX_TEXT_LENGTH: Final = 300
_BLOB_BYTES: Final = 1024


def sample(dataset: Dataset, snapshot: Snapshot, *, limit: int) -> dict[str, Any]:
    """The first rows as a table of texts; nothing after them is read."""
    return sample_of(dataset.plan_snapshot(snapshot), limit=limit)


def newest_sample(view: HistoryView, *, limit: int) -> dict[str, Any]:
    """Rows of the newest snapshot with visible files, under the present names of the columns."""
    if view.state is not None:
        return _visible_sample(view, view.state, limit=limit)
    line = next((line for line in reversed(view.lines) if line.files), view.lines[-1])
    newest = Snapshot(view.newest)
    if line.id == newest.id:
        scan = view.dataset.plan_snapshot(newest)
    else:
        older = view.dataset.snapshot(ExactId(line.id))
        # Snapshots of version 0.1 may have other components than the newest, so each is read with its own.
        plan = view.dataset.plan_snapshot(newest if older.manifest.definition is not None else older)
        scan = plan.of([older.manifest])
    return {
        "snapshot": line.id,
        "short": view.short(line.id),
        "sequence": line.sequence,
        **sample_of(scan, limit=limit),
    }


def _visible_sample(view: HistoryView, state: Scan, *, limit: int) -> dict[str, Any]:
    """The same where snapshots have removed files."""
    newest = next((manifest for manifest in reversed(state.manifests) if manifest.files), view.newest)
    return {
        "snapshot": newest.snapshot_id,
        "short": view.short(newest.snapshot_id),
        "sequence": view.dataset.chain.sequence_of(newest),
        **sample_of(state.of([newest]), limit=limit),
    }


def sample_of(scan: Scan, *, limit: int) -> dict[str, Any]:
    """The first rows of a scan, or the first bytes of its first blob."""
    if scan.components.codec is None:
        return {"blob": _blob(scan)}
    limit = max(1, min(limit, MAX_ROWS))
    rows = list(islice(_records(scan, limit + 1), limit + 1))
    records = [row if isinstance(row, dict) else {"value": row} for row in rows[:limit]]
    names = _columns(scan, records)
    shown = names[:MAX_COLUMNS]
    return {
        "columns": [
            {"name": name, "numeric": are_numbers(record.get(name) for record in records)} for name in shown
        ],
        "columns_total": len(names),
        "rows": [[text_of(record.get(name)) for name in shown] for record in records],
        "more": len(rows) > limit,
    }


def _records(scan: Scan, limit: int) -> Iterator[Any]:
    for file, names in scan.files_with_names():
        for chunk in decode_file(scan.store, file, scan.components):
            # Only rows that are shown become Python objects.
            rows = chunk if isinstance(chunk, list) else batch_records(chunk.slice(0, limit), first_row=0)
            for row in rows:
                yield _with_present_names(row, names)


def _with_present_names(row: Any, names: dict[str, str | None] | None) -> Any:
    """The row under the present names of its columns."""
    if names is None or not isinstance(row, dict):
        return row
    return {now: None if then is None else row.get(then) for now, then in names.items()}


def _columns(scan: Scan, records: list[dict[str, Any]]) -> list[str]:
    """The declared columns, which leave out dropped ones, or all columns of the records."""
    if scan.definition is not None and scan.definition.columns is not None:
        return [column.name for column in scan.definition.columns]
    return list(dict.fromkeys(name for record in records for name in record))


def text_of(value: Any) -> str | None:
    """A value as short text, since browsers change large numbers. None stays None."""
    match value:
        case None:
            return None
        case str():
            text = value
        case bool():
            text = "true" if value else "false"
        case int() | float() | Decimal():
            text = str(value)
        case bytes():
            text = f"0x{value[: MAX_TEXT_LENGTH // 2].hex()}"
        case _:
            text = json_text(value).strip('"')
    return text if len(text) <= MAX_TEXT_LENGTH else f"{text[:MAX_TEXT_LENGTH]}…"


def _blob(scan: Scan) -> dict[str, Any]:
    data = b""
    if scan.files:
        with open_plain(scan.store, scan.files[0], scan.components) as plain:
            data = plain.read(_BLOB_BYTES + 1)
    head = data[:_BLOB_BYTES]
    # The last character may be cut off, which does not make the text binary.
    text = head.decode("utf-8", "ignore")
    is_text = len(text.encode()) > len(head) - 4 and all(
        char.isprintable() or char in "\r\n\t" for char in text
    )
    return {
        "text": text if is_text else None,
        "hex": None if is_text else head[:256].hex(" ", 1),
        "more": len(data) > len(head) or len(scan.files) > 1,
    }
