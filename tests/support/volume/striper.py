"""A writer in a process of its own: fills its stripe of a volume with the bytes that belong there.

    python striper.py URL LENGTH START END PIECE

It asks what is missing, stages only that, commits block by block and says what was acknowledged.
"""

from __future__ import annotations

import argparse
import io
import os
import signal
from hashlib import shake_128
from typing import TYPE_CHECKING, TypeVar

import lode
from lode.store.wrappers import StoreWrapper

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

PAGE = 4096


class Deadly(StoreWrapper):
    """Ends this process, as the kernel would, at one of its store calls."""

    def __init__(self, inner: lode.Store, die_at: int) -> None:
        super().__init__(inner)
        self._left = die_at

    def around(self, method: str, path: str, call: Callable[[], T]) -> T:
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return call()


def content(offset: int, length: int) -> bytes:
    """The bytes that belong at ``offset``: each says something about where it is."""
    first, last = offset // PAGE, (offset + length - 1) // PAGE
    pages = (shake_128(str(page).encode()).digest(PAGE) for page in range(first, last + 1))
    return b"".join(pages)[offset - first * PAGE :][:length]


def main(store: lode.Store, length: int, start: int, end: int, piece: int) -> None:
    volume = lode.Volume("v", store, length, checksum="xxh3-128")
    for gap, size in volume.missing():
        for at in range(max(gap, start), min(gap + size, end), piece):
            until = min(at + piece, gap + size, end)
            block = volume.stage_write_at(at, io.BytesIO(content(at, until - at)))
            snapshot = volume.commit([block])
            print(at, until, snapshot.id, flush=True)


def fill_and_die(url: str, length: int, piece: int, call: int) -> None:
    """Fill a volume and be killed with signal 9 just before the given store call."""
    main(Deadly(lode.open_store(url), call), length, 0, length, piece)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    for name in ("length", "start", "end", "piece"):
        parser.add_argument(name, type=int)
    options = parser.parse_args()
    main(lode.open_store(options.url), options.length, options.start, options.end, options.piece)
