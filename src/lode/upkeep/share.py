"""Shares of the files of a dataset, chosen by a hash, so that no process has to hold all of them at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lode.format.manifest import Manifest
    from lode.handle import FoundDataset
    from lode.read.resolve import Chain

# The bytes of manifests that one share holds the files of. A file takes about as much memory as its entry in
# a manifest, so this bounds the memory of the process, at one reading of the history for each share.
BYTES_PER_SHARE = 512 << 20
# About what a file with the statistics of three columns takes in a manifest.
_BYTES_PER_FILE: Final = 640
# Hashes by which partitions are counted.
_SLOTS: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Share:
    """One of several shares; the default is everything. Pickles."""

    number: int = 0
    of: int = 1

    def has(self, name: str) -> bool:
        """Whether a path or an id is in this share."""
        return self.of == 1 or crc32(name.encode("utf-8", "surrogatepass")) % self.of == self.number


ALL: Final = Share()


@dataclass(frozen=True, slots=True)
class PartitionShare:
    """The files of some partitions; of a partition that is too large for one share, some of its files."""

    partition_of: Callable[[str], str]
    # The share of each slot, and the number of this one.
    numbers: Sequence[int]
    number: int
    files: Share = ALL

    def has(self, path: str) -> bool:
        """Whether a file is in this share."""
        return self.numbers[_slot(self.partition_of(path))] == self.number and self.files.has(path)


def partition_shares(history: Iterable[Manifest], partition_of: Callable[[str], str]) -> list[PartitionShare]:
    """Shares that keep the files of a partition together, unless these are more than a share has.

    Partitions are counted by a hash, so that this takes no memory for each of them.

    Args:
        history: The manifests.
        partition_of: The partition of a path.
    """
    sizes = [0] * _SLOTS
    for manifest in history:
        for file in manifest.files:
            sizes[_slot(partition_of(file.path))] += 1
    limit = files_per_share()
    numbers = [0] * _SLOTS
    filled = [0]
    for slot, size in enumerate(sizes):
        if size and filled[-1] and filled[-1] + size > limit:
            filled.append(0)
        numbers[slot] = len(filled) - 1
        filled[-1] += size
    return [
        PartitionShare(partition_of, numbers, number, Share(part, parts))
        for number, size in enumerate(filled)
        for parts in [max(1, -(-size // limit))]
        for part in range(parts)
    ]


def _slot(partition: str) -> int:
    return crc32(partition.encode("utf-8", "surrogatepass")) % _SLOTS


def files_per_share() -> int:
    """About how many files one share has."""
    return max(1, BYTES_PER_SHARE // _BYTES_PER_FILE)


def shares_of(chain: Chain[Any]) -> list[Share]:
    """As many shares as the sizes of the manifests call for."""
    listed = chain.store.list(f"{chain.paths.manifests}/")
    total = sum(entry.size for entry in listed if chain.paths.snapshot_of(entry.path) is not None)
    count = max(1, -(-total // BYTES_PER_SHARE))
    return [Share(number, count) for number in range(count)]


def fits(found: FoundDataset, head: Manifest) -> bool:
    """Whether one process may hold all files at a snapshot, so that no shares are needed."""
    return len(shares_of(found.chain)) == 1 or found.states.weight(head) <= files_per_share()
