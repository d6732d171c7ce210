"""The first rows of a snapshot, or the first bytes of a blob."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from lode.codec.recordize import batch_records
from lode.read.scan import decode_file, open_plain
from lode.ui.cells import is_number, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lode.dataset import Dataset
    from lode.read.scan import Scan
    from lode.snapshot import Snapshot

MOST_ROWS: Final = 200
MOST_COLUMNS: Final = 60
_BLOB_BYTES: Final = 1024


def sample(dataset: Dataset, snapshot: Snapshot, *, limit: int) -> dict[str, Any]:
    """Rows as a table of texts; nothing behind the last of them is read."""
    scan = dataset.plan_snapshot(snapshot)
    if scan.components.codec is None:
        return {"blob": _blob(scan)}
    limit = max(1, min(limit, MOST_ROWS))
    rows = list(islice(_records(scan, limit + 1), limit + 1))
    records = [row if isinstance(row, dict) else {"value": row} for row in rows[:limit]]
    names = list(dict.fromkeys(name for record in records for name in record))
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
    for file in scan.files:
        for chunk in decode_file(scan.store, file, scan.components):
            # Not more of a batch than is shown becomes Python objects.
            yield from chunk if isinstance(chunk, list) else batch_records(chunk.slice(0, most), first_row=0)


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
