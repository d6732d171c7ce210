"""The partitions of snapshots: how many files, rows and bytes each has, and when it was last written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lode.times import ns_to_rfc3339, rfc3339_to_ns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lode.dataset import Dataset
    from lode.format.manifest import Manifest

# A dataset with more partitions shows this many: one takes about 300 bytes of the server's memory.
MAX_PARTITIONS: Final = 50_000


class Partition(NamedTuple):
    """The files of one partition. ``rows`` is None where a codec did not count them."""

    name: str
    files: int
    rows: int | None
    bytes: int
    written_ns: int

    def plus(self, other: Partition) -> Partition:
        rows = None if self.rows is None or other.rows is None else self.rows + other.rows
        return Partition(
            self.name,
            self.files + other.files,
            rows,
            self.bytes + other.bytes,
            max(self.written_ns, other.written_ns),
        )

    def as_dict(self) -> dict[str, Any]:
        return {
            "partition": self.name,
            "files": self.files,
            "rows": self.rows,
            "bytes": self.bytes,
            "last_write": ns_to_rfc3339(self.written_ns),
        }


def partitions_of(dataset: Dataset, manifest: Manifest) -> dict[str, Partition]:
    """The partitions of one snapshot by name; none if the dataset is not partitioned."""
    found: dict[str, Partition] = {}
    written_ns = rfc3339_to_ns(manifest.created_at)
    for file in manifest.files if dataset.layout.keys else ():
        name = dataset.layout.partition_of(dataset.id, file.path)
        if file.stats is not None:
            rows: int | None = file.stats.row_count
        else:
            # A snapshot of one file counts the rows of that file.
            rows = manifest.row_count if len(manifest.files) == 1 else None
        merge(found, {name: Partition(name, 1, rows, file.size_bytes, written_ns)})
    return found


def merge(into: dict[str, Partition], more: Mapping[str, Partition]) -> None:
    """Add ``more`` to ``into``, which holds at most ``MAX_PARTITIONS``."""
    for name, partition in more.items():
        known = into.get(name)
        if known is not None:
            into[name] = known.plus(partition)
        elif len(into) < MAX_PARTITIONS:
            into[name] = partition
