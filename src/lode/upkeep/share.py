"""Shares of the files of a dataset, chosen by a hash, so that no process has to hold all of them at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

if TYPE_CHECKING:
    from lode.read.resolve import Chain

# The bytes of manifests that one share holds the files of. A file takes about as much memory as its entry in
# a manifest, so this bounds the memory of the process, at one reading of the history for each share.
BYTES_PER_SHARE = 512 << 20


@dataclass(frozen=True, slots=True)
class Share:
    """One of several shares; the default is everything. Pickles."""

    number: int = 0
    of: int = 1

    def has(self, name: str) -> bool:
        """Whether a path or an id is in this share."""
        return self.of == 1 or crc32(name.encode("utf-8", "surrogatepass")) % self.of == self.number


ALL: Final = Share()


def shares_of(chain: Chain[Any]) -> list[Share]:
    """As many shares as the sizes of the manifests call for."""
    listed = chain.store.list(f"{chain.paths.manifests}/")
    total = sum(entry.size for entry in listed if chain.paths.snapshot_of(entry.path) is not None)
    count = max(1, -(-total // BYTES_PER_SHARE))
    return [Share(number, count) for number in range(count)]
