"""Throughput of a long stream of bytes, compared with a plain upload of the same bytes."""

from __future__ import annotations

import os
from itertools import count
from typing import TYPE_CHECKING, Final

from lode.bench.results import Blobs
from lode.bench.rounds import calls_of, take_turns
from lode.dataset import Dataset

if TYPE_CHECKING:
    from collections.abc import Callable

    from lode.bench.rounds import Advance
    from lode.bench.scratch import Scratch
    from lode.store.protocol import ObjectWriter, Store
    from lode.write.stream import StreamWriter

_NAME: Final = "blobs"
_PIECE: Final = 1 << 20
# Large enough for a multipart upload, small enough for a slow connection.
_PIECES: Final = 16
_LEAST: Final = 2
_MOST: Final = 50


def measure_blobs(scratch: Scratch, *, seconds: float, advance: Advance) -> Blobs:
    """Stream the same pieces alternately with Lode and without."""
    piece = os.urandom(_PIECE)
    store = scratch.open()
    numbers = count()

    def upload() -> None:
        with store.open_writer(f"floor/{_NAME}/{next(numbers)}") as out:
            _fill(out, piece)

    lode, floor = take_turns(
        _streaming(store, piece), upload, seconds=seconds, most=_MOST, least=_LEAST, advance=advance
    )
    calls = calls_of(store, lambda counting: _streaming(counting, piece))
    return Blobs(_PIECE * _PIECES, lode, floor, calls)


def _streaming(store: Store, piece: bytes) -> Callable[[], None]:
    dataset = Dataset(_NAME, store)

    def stream() -> None:
        with dataset.stream_write() as out:
            _fill(out, piece)

    return stream


def _fill(out: StreamWriter | ObjectWriter, piece: bytes) -> None:
    for _ in range(_PIECES):
        out.write(piece)
    out.commit()
