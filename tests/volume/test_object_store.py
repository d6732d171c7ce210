"""A volume on a real object-store server: large blocks in parts, and processes with pickled volumes."""

from __future__ import annotations

import io
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TYPE_CHECKING

import lode
from support.volume.striper import content

if TYPE_CHECKING:
    from lode.testing.servers import S3Server

STRIPE = 10_000
PIECES = 4


def fill_stripe(volume: lode.Volume, stripe: int) -> int:
    """Fill one stripe with one commit per block, and return the number of merges."""
    rebases = 0
    for piece in range(PIECES):
        at = stripe * STRIPE + piece * STRIPE // PIECES
        snapshot = volume.commit([volume.stage_write_at(at, content(at, STRIPE // PIECES))])
        assert snapshot.commit is not None
        rebases += snapshot.commit.rebases
    return rebases


def test_eight_stripes_are_filled_from_processes_at_once_without_an_error(s3_server: S3Server) -> None:
    store = lode.open_store(s3_server.create("volume-stripes"), **s3_server.options)
    volume = lode.Volume("v", store, 8 * STRIPE, checksum="sha256")
    with ProcessPoolExecutor(4, mp_context=get_context("spawn")) as pool:
        list(pool.map(fill_stripe, [volume] * 8, range(8)))
    head = volume.latest()
    assert head.sequence == len(head.blocks) == 8 * PIECES
    assert volume.read_at(head, 0, 8 * STRIPE, verify=True) == content(0, 8 * STRIPE)


def test_a_large_block_is_streamed_in_parts_and_read_back_in_ranges(s3_server: S3Server) -> None:
    store = lode.open_store(s3_server.create("volume-parts"), **s3_server.options)
    data = content(0, 13 << 20)
    volume = lode.Volume("v", store, len(data), checksum="xxh3-128")
    head = volume.commit([volume.stage_write_at(0, io.BytesIO(data))])
    assert volume.read_at(head, (8 << 20) - 3, 10) == data[(8 << 20) - 3 : (8 << 20) + 7]
    assert volume.read_at(head, 0, len(data), verify=True) == data
    with volume.open(head) as file:
        file.seek(-5, io.SEEK_END)
        assert file.read() == data[-5:]
