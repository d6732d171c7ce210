"""Fetch small remote files before they are needed: their requests then wait for the store together."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from lode.store.local import LocalStore

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from lode.format.manifest import FileRef
    from lode.store.protocol import Store

# Up to this size a remote file is fetched whole: one request instead of three or four.
SMALL_FILE: Final = 4 << 20
# How much is fetched ahead, at most: so many files, so many bytes.
_FILES: Final = 16
_BYTES: Final = 16 << 20


def fetched(store: Store, files: Sequence[FileRef]) -> Generator[bytes | None, None, None]:
    """Yield the bytes of each file in order; None for those that are local or large, and better opened."""
    if isinstance(store, LocalStore):
        yield from (None for _ in files)
        return
    waiting: deque[tuple[Future[bytes] | None, int]] = deque()
    held = 0
    threads = ThreadPoolExecutor(min(_FILES, max(len(files), 1)), "lode-read-ahead")
    try:
        for file in files:
            small = file.size_bytes <= SMALL_FILE
            size = file.size_bytes if small else 0
            while waiting and (len(waiting) >= _FILES or held + size > _BYTES):
                held -= waiting[0][1]
                yield _first(waiting)
            waiting.append((threads.submit(store.get, file.path) if small else None, size))
            held += size
        while waiting:
            yield _first(waiting)
    finally:
        threads.shutdown(wait=False, cancel_futures=True)


def _first(waiting: deque[tuple[Future[bytes] | None, int]]) -> bytes | None:
    future, _ = waiting.popleft()
    return None if future is None else future.result()
