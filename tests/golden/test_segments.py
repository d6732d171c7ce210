"""Segments of earlier versions, without and with a listing, are read by their manifests."""

from __future__ import annotations

from pathlib import Path

import pytest

from lode.format.manifest import decode_manifest
from lode.read.resolve import Named
from lode.read.segment import decode_segment, encode_segment, list_segment

SEGMENTS = Path(__file__).parent / "segments"
EVERY_SEGMENT = pytest.mark.parametrize("name", ["plain", "listed"])


def stored(name: str) -> bytes:
    return (SEGMENTS / f"{name}.json.zst").read_bytes()


@EVERY_SEGMENT
def test_the_listing_of_a_segment_matches_its_manifests(name: str) -> None:
    manifests = [decode_manifest(bytes(raw), name) for raw in decode_segment(stored(name))]
    newest = manifests[-1]
    listing = list_segment(stored(name), newest.dataset_id, 16, 16, Named(newest.snapshot_id))
    files = [file for manifest in manifests for file in manifest.files]
    assert listing.parent is None
    assert listing.snapshots == [manifest.snapshot_id for manifest in manifests]
    assert listing.rows == [manifest.row_count for manifest in manifests] == list(range(1, 17))
    assert listing.files == [1] * 16
    assert listing.paths == [file.path for file in files]
    assert listing.sizes == [file.size_bytes for file in files]


@EVERY_SEGMENT
def test_a_rewritten_segment_keeps_its_manifests_byte_for_byte(name: str) -> None:
    manifests = decode_segment(stored(name))
    again = encode_segment([bytes(raw) for raw in manifests], 16)
    assert decode_segment(again) == manifests == decode_segment(stored("plain"))
