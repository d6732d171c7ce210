"""What snapshots hold, partition by partition."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lode.dataset import Dataset
    from lode.snapshot import Snapshot


_NEVER: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(slots=True)
class Partition:
    """The files of one partition; ``rows`` is None where a codec did not count them."""

    snapshots: int = 0
    files: int = 0
    rows: int | None = 0
    bytes: int = 0
    last_write: datetime = _NEVER

    @property
    def rows_text(self) -> str:
        return "?" if self.rows is None else f"{self.rows:,}"

    def as_dict(self) -> dict[str, Any]:
        return {
            "snapshots": self.snapshots,
            "files": self.files,
            "rows": self.rows,
            "bytes": self.bytes,
            "last_write": self.last_write,
        }


def partitions_of(dataset: Dataset, snapshots: Iterable[Snapshot]) -> dict[str, Partition]:
    """The partitions of these snapshots in order; one without a name for data that is not partitioned."""
    found: dict[str, Partition] = {}
    for snapshot in snapshots:
        touched = set()
        for file in snapshot.files:
            name = dataset.layout.partition_of(dataset.id, file.path)
            part = found.setdefault(name, Partition())
            rows = file.stats.row_count if file.stats else _only_file(snapshot)
            part.files += 1
            part.bytes += file.size_bytes
            part.rows = None if rows is None or part.rows is None else part.rows + rows
            part.last_write = max(part.last_write, snapshot.created_at)
            touched.add(name)
        for name in touched:
            found[name].snapshots += 1
    return dict(sorted(found.items()))


def _only_file(snapshot: Snapshot) -> int | None:
    """A snapshot of one file counts that file's rows, whatever its codec counted."""
    return snapshot.row_count if len(snapshot.files) == 1 else None
