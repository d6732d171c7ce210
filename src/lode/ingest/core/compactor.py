"""Compacts the tables that a server writes, beside its writers: many small files become few.

One thread with a low priority. It rewrites one group of files at a time, and then rests nine times as long as
it has worked: it takes a tenth of one core, and sends a tenth of the requests that it could. Files of about
one size are put together, at least eight at a time. So large files are left alone, every compaction leaves
fewer files, and two servers that compact the same table come to an end.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

from lode.change.base import Part, Workers
from lode.change.compact import CompactLimits, compact
from lode.errors import LodeError
from lode.ingest.core.progress import METADATA
from lode.ingest.status import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lode.change.base import Progress
    from lode.change.result import Change
    from lode.ingest.core.metrics import Metrics
    from lode.ingest.core.table_writer import TableWriter
    from lode.write.stage import Stager

T = TypeVar("T")

# The sizes of new files, small ones first. Files of the last size stay as they are.
SIZES_BYTES: Final = (1 << 20, 8 << 20, 64 << 20, 512 << 20)
# Files that become one. A table is looked at after as many commits of this server.
MIN_FILES: Final = 8
# The work between two rests.
MAX_FILES: Final = 256
MAX_BYTES: Final = 1 << 30
_WORK_SHARE: Final = 0.1
_PAUSE_SECONDS: Final = 5.0
_NICENESS: Final = 10

logger = logging.getLogger("lode.ingest")


class _Stopped(Exception):  # noqa: N818, an outcome rather than an error
    """The server stops: the compaction is given up, and its files are removed."""


class _OneByOne(Workers):
    """Rewrites one group of files at a time, until it is stopped."""

    def __init__(self, stopping: threading.Event) -> None:
        self._stopping = stopping

    def each(self, do: Callable[[Part], T], parts: Sequence[Part], progress: Progress | None) -> list[T]:
        done: list[T] = []
        for part in parts:
            if self._stopping.is_set():
                raise _Stopped
            done.append(do(part))
        return done

    def stager(self, stager: Stager, parts: Sequence[Part]) -> Stager:
        return stager  # other threads of the server need the cores


class Compactor:
    """Compacts tables in a thread of its own, from ``start`` to ``stop``.

    Args:
        writers: Returns the writers of the tables.
        metrics: Counts compactions.
    """

    def __init__(self, writers: Callable[[], Sequence[TableWriter]], metrics: Metrics) -> None:
        self._writers = writers
        self._metrics = metrics
        self._stopping = threading.Event()
        self._workers = _OneByOne(self._stopping)
        self._thread: threading.Thread | None = None
        # By dataset, the number of commits when it was last found to have nothing to compact.
        self._done: dict[str, int] = {}

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="lode-compact", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop after the group of files that is being rewritten. Returns when the thread has ended."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def run_once(self) -> int:
        """Compact every table that needs it once; returns the number of compactions."""
        count = 0
        for writer in self._writers():
            if self._stopping.is_set():
                break
            count += self._compact(writer)
        return count

    def _run(self) -> None:
        with suppress(OSError, AttributeError):  # not on every platform
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
        while not self._stopping.wait(_PAUSE_SECONDS):
            self.run_once()

    def _compact(self, writer: TableWriter) -> bool:
        """Compact the smallest files of a table; returns whether there was anything to do."""
        commits = writer.commits
        if commits - self._done.get(writer.dataset_id, 0) < MIN_FILES:
            return False
        began = time.monotonic()
        change: Change | None = None
        try:
            change = self._smallest(writer)
        except _Stopped:
            return False
        except (
            LodeError,
            Refused,
        ) as error:  # the table was deleted, or the store failed: the next round tries
            logger.warning("table %s could not be compacted: %s", writer.name.short, error)
        took = time.monotonic() - began
        if change is None:
            self._done[writer.dataset_id] = commits
        else:
            self._metrics.compacted(change, took)
            logger.info(
                "%d files of %s became %d in %.1f s",
                change.removed.files,
                writer.name.short,
                change.added.files,
                took,
            )
        self._stopping.wait(took * (1 / _WORK_SHARE - 1))
        return change is not None

    def _smallest(self, writer: TableWriter) -> Change | None:
        dataset = writer.open()[1]
        if not dataset.exists:
            return None
        context = dataset._changes.with_workers(self._workers)
        metadata: dict[str, Any] = {METADATA: {"compacted": True}}
        limits = CompactLimits(MIN_FILES, MAX_FILES, MAX_BYTES)
        for size in SIZES_BYTES:
            change = compact(
                context,
                metadata,
                target_file_bytes=size,
                sort_by=None,
                where=None,
                idempotency_key=None,
                dry_run=False,
                progress=None,
                limits=limits,
            )
            if change.snapshot is not None:
                return change
        return None
