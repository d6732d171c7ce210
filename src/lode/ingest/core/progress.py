"""How many rows of each stream are visible, read from the metadata of the snapshots themselves.

Rows and progress become visible in the same swap, so they agree no matter when a process dies. The checkpoint
only limits how much of the history a restart has to read.
"""

from __future__ import annotations

import contextlib
import logging
import os
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import lode

# The key of the server's entry in the metadata of a snapshot.
METADATA: Final = "ingest"
# Commits that a restart may have to read again.
_COMMITS_PER_CHECKPOINT: Final = 64
# Commits of this server among those of others, after which the others are read although no stream needs them.
_MAX_UNREAD: Final = 64
# The machine's clock may be set back, so the search for a stream's first rows starts this much earlier.
_CLOCK_SLACK: Final = timedelta(hours=1)

logger = logging.getLogger("lode.ingest")


class VisibleRows(msgspec.Struct, frozen=True, array_like=True):
    """The number of visible rows of a stream, and the time of the last commit that added to it."""

    rows: int
    at: datetime


class _Checkpoint(msgspec.Struct, frozen=True):
    snapshot: str | None
    streams: dict[str, VisibleRows]


class StreamProgress:
    """The progress of the streams of one table, by its snapshots. Not thread-safe: the table writer locks."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._since_checkpoint = 0
        # Commits of this server that do not follow the head: between them are snapshots not yet read.
        self._unread = 0
        self._head: str | None = None
        self._visible: dict[str, VisibleRows] = {}
        # The same snapshots list the streams of other servers too; their number is not bounded.
        self._followed: set[str] = set()

    @property
    def head(self) -> str | None:
        """The newest snapshot it has read."""
        return self._head

    @property
    def is_far_behind(self) -> bool:
        """Whether the history after the head is so long that it should be read now."""
        return self._unread >= _MAX_UNREAD

    def visible(self, stream: str) -> VisibleRows | None:
        return self._visible.get(stream)

    def rows(self, stream: str) -> int:
        found = self._visible.get(stream)
        return found.rows if found else 0

    def recover(self, dataset: lode.Dataset, streams: Mapping[str, datetime]) -> None:
        """Read the progress of these streams, given when each was created."""
        dataset.settle()  # a killed server may have swapped in a snapshot without publishing it
        saved = self._load() or _Checkpoint(None, {})
        self._followed = set(streams)
        self._head = saved.snapshot
        earliest = min(streams.values(), default=datetime.max.replace(tzinfo=UTC) - _CLOCK_SLACK)
        self._catch_up(dataset, not_before=earliest - _CLOCK_SLACK, up_to_head=saved.streams)
        self.save()

    def catch_up(self, dataset: lode.Dataset) -> set[str]:
        """Read the snapshots after the head; returns the streams with more visible rows."""
        return self._catch_up(dataset, not_before=None, up_to_head={})

    def record(self, snapshot: lode.Snapshot) -> None:
        """Take in a commit of this server; the next ``catch_up`` reads foreign commits before it."""
        self._note(snapshot)
        if snapshot.parent_id == self._head:
            self._head = snapshot.id
        else:
            self._unread += 1
        self._since_checkpoint += 1
        if self._since_checkpoint >= _COMMITS_PER_CHECKPOINT:
            self.save()

    def follow(self, stream: str) -> None:
        """Follow a new stream; no snapshot mentions it yet."""
        self._followed.add(stream)

    def forget(self, stream: str) -> None:
        self._followed.discard(stream)
        self._visible.pop(stream, None)

    def save(self) -> None:
        """Write a checkpoint. Without it the next start reads more history; nothing else is lost."""
        self._since_checkpoint = 0
        fresh = self._file.with_suffix(".new")
        try:
            fresh.write_bytes(msgspec.json.encode(_Checkpoint(self._head, self._visible)))
            os.replace(fresh, self._file)  # noqa: PTH105, Path.replace adds nothing
        except OSError as error:
            logger.warning("the checkpoint %s could not be written: %s", self._file, error)

    def _load(self) -> _Checkpoint | None:
        with contextlib.suppress(FileNotFoundError, msgspec.DecodeError):
            return msgspec.json.decode(self._file.read_bytes(), type=_Checkpoint)
        return None

    def _catch_up(
        self, dataset: lode.Dataset, *, not_before: datetime | None, up_to_head: Mapping[str, VisibleRows]
    ) -> set[str]:
        changed: set[str] = set()
        newest: str | None = None
        for snapshot in dataset.history():
            newest = newest or snapshot.id
            if snapshot.id == self._head:
                # Only if the head is found: a lake restored from a copy may be older than its checkpoint.
                before = {stream: rows for stream, rows in up_to_head.items() if stream in self._followed}
                self._visible = {**before, **self._visible}
                break
            if not_before is not None and snapshot.created_at < not_before:
                break
            changed |= self._note(snapshot)
        self._head = newest
        self._unread = 0
        return changed

    def _note(self, snapshot: lode.Snapshot) -> set[str]:
        """Take in one snapshot. Progress only grows, so snapshots may be read in any order."""
        changed: set[str] = set()
        written = snapshot.metadata.get(METADATA)
        streams = written.get("streams") if isinstance(written, dict) else None
        for stream, rows in streams.items() if isinstance(streams, dict) else ():
            if stream not in self._followed:
                continue
            known = self._visible.get(stream)
            if isinstance(rows, int) and (known is None or rows > known.rows):
                self._visible[stream] = VisibleRows(rows, snapshot.created_at)
                changed.add(stream)
        return changed
