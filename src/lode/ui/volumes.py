"""Volumes in the console: how much of each is written, and where the gaps are."""

from __future__ import annotations

from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, Final

from lode.errors import LodeError, NotFoundError
from lode.format.ids import check_id
from lode.read.resolve import Chain, chain_of_volume
from lode.read.which import ParentLinks, find, parsed

if TYPE_CHECKING:
    from lode.format.volume import VolumeManifest
    from lode.store.protocol import Store

MAX_CELLS: Final = 480
MAX_GAPS: Final = 100
# Every manifest of a volume lists all of its blocks, so each snapshot needs a large read.
MAX_SNAPSHOTS: Final = 20


def summary(store: Store, name: str) -> dict[str, Any]:
    """A volume in the list of all."""
    chain = _chain(store, name)
    return _facts(chain, _newest(chain, name, store))


def describe(store: Store, name: str, *, at: str | None, cells: int) -> dict[str, Any]:
    """A volume at its newest snapshot or at another one: its coverage cell by cell, and its gaps."""
    chain = _chain(store, name)
    newest = _newest(chain, name, store)
    manifest = find(parsed(at), chain, ParentLinks(chain), lambda: newest) if at else newest
    gaps = list(manifest.gaps(0, manifest.total_length))
    snapshots, broken = _recent(chain, newest)
    return {
        **_facts(chain, manifest),
        "newest": newest.snapshot_id,
        "checksum": manifest.checksum_algorithm,
        "blocks": len(manifest.blocks),
        "coverage": coverage(manifest, max(1, min(cells, MAX_CELLS))),
        "gaps": [list(gap) for gap in gaps[:MAX_GAPS]],
        "gaps_total": len(gaps),
        "snapshots_shown": snapshots,
        "broken": broken,
        "metadata": [[key, str(value)] for key, value in manifest.metadata.items()][:MAX_GAPS],
    }


def coverage(manifest: VolumeManifest, cells: int) -> list[float]:
    """The share of each of equally long cells that is written, from 0 to 1."""
    length = manifest.total_length
    cells = min(cells, length)
    edges = [number * length // cells for number in range(cells + 1)]
    shares: list[float] = []
    place = 0
    for start, end in pairwise(edges):
        held = 0
        while place < len(manifest.blocks) and manifest.blocks[place].offset < end:
            block = manifest.blocks[place]
            held += max(0, min(end, block.end) - max(start, block.offset))
            if block.end > end:
                break  # the next cell holds the rest of it
            place += 1
        share = held / (end - start)
        # Rounding must neither hide a gap nor invent one.
        shares.append(share if share in (0, 1) else min(max(round(share, 3), 0.001), 0.999))
    return shares


def _facts(chain: Chain[VolumeManifest], manifest: VolumeManifest) -> dict[str, Any]:
    return {
        "name": manifest.volume_id,
        "snapshots": chain.length_at(manifest),
        "bytes": sum(block.length for block in manifest.blocks),
        "length": manifest.total_length,
        "last_write": manifest.created_at,
        "latest": manifest.snapshot_id,
    }


def _recent(chain: Chain[VolumeManifest], newest: VolumeManifest) -> tuple[list[dict[str, Any]], str | None]:
    found: list[dict[str, Any]] = []
    sequence = chain.sequence_of(newest)
    try:
        for manifest in islice(chain.back(newest), MAX_SNAPSHOTS):
            found.append(
                {
                    "sequence": sequence - len(found),
                    "id": manifest.snapshot_id,
                    "created_at": manifest.created_at,
                    "bytes": sum(block.length for block in manifest.blocks),
                    "blocks": len(manifest.blocks),
                }
            )
    except LodeError as error:
        return found, str(error)
    return found, None


def _chain(store: Store, name: str) -> Chain[VolumeManifest]:
    return chain_of_volume(store, check_id(name, kind="volume"))


def _newest(chain: Chain[VolumeManifest], name: str, store: Store) -> VolumeManifest:
    newest = chain.resolve().manifest
    if newest is None:
        raise NotFoundError(f"no volume {name!r} in {store.url}")
    return newest
