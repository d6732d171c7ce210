"""What an operation changed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lode.format.manifest import Removed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lode.format.manifest import FileRef
    from lode.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Change:
    """What an operation changed, or would change in a dry run.

    ``snapshot`` is None after a dry run, and if there was nothing to change.
    """

    operation: str
    snapshot: Snapshot | None = None
    # The files that were taken out and put in. Rows that were only rewritten are in both.
    removed: Removed = field(default_factory=Removed)
    added: Removed = field(default_factory=Removed)

    @property
    def rows(self) -> int:
        """By how many rows the dataset has grown; negative if it has shrunk."""
        return self.added.rows - self.removed.rows

    @classmethod
    def of(cls, snapshot: Snapshot) -> Change:
        """What a snapshot changed."""
        manifest = snapshot.manifest
        added = amount(manifest.files, manifest.row_count)
        return cls(manifest.operation, snapshot, manifest.removed, added)


def amount(files: Iterable[FileRef], rows: int) -> Removed:
    """Files as numbers."""
    sizes = [file.size_bytes for file in files]
    return Removed(len(sizes), rows, sum(sizes))
