"""Fetch small remote files before they are needed: their requests then wait for the store together."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from lode.store.local import LocalStore

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable
    from concurrent.futures import Executor, Future

    from lode.ingest.api.grpc_read.plan import Piece
    from lode.store.protocol import Store

# Up to this size a remote file is fetched whole: one request instead of three or four.
SMALL_FILE: Final = 4 << 20
# How much is fetched ahead, at most: so many files, so many bytes.
_FILES: Final = 16
_BYTES: Final = 16 << 20


class Fetched(NamedTuple):
    """A file and what it holds; None for one that is local or large, and better opened."""

    piece: Piece
    data: bytes | None


class _Waiting(NamedTuple):
    piece: Piece
    size: int
    data: Future[bytes] | None


def fetch_ahead(store: Store, pieces: Iterable[Piece], threads: Executor) -> Generator[Fetched, None, None]:
    """Yield the files in order, while the next ones are on their way."""
    waiting: deque[_Waiting] = deque()
    held = 0
    try:
        for piece in pieces:
            small = piece.file.size_bytes <= SMALL_FILE and not isinstance(store, LocalStore)
            size = piece.file.size_bytes if small else 0
            # A local file is not fetched, and with that nothing is to be had from looking ahead.
            while waiting and (not small or len(waiting) >= _FILES or held + size > _BYTES):
                held -= waiting[0].size
                yield _first(waiting)
            data = threads.submit(store.get, piece.file.path) if small else None
            waiting.append(_Waiting(piece, size, data))
            held += size
        while waiting:
            yield _first(waiting)
    finally:
        for left in waiting:
            if left.data is not None:
                left.data.cancel()


def _first(waiting: deque[_Waiting]) -> Fetched:
    piece, _, data = waiting.popleft()
    return Fetched(piece, None if data is None else data.result())
