"""How far each stream's rows are visible: read from the snapshots themselves, which carry it as metadata.

Rows and progress become visible in the same swap, so they cannot disagree, at whatever point a process dies.
The checkpoint beside them only says how far back one has to look.
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

# The key of a snapshot's metadata under which the server writes.
METADATA: Final = "ingest"
# How many commits a restart may have to read again.
_COMMITS_PER_CHECKPOINT: Final = 64
# Clocks of this machine may be set back; a stream's first rows are looked for this much further back.
_CLOCK_SLACK: Final = timedelta(hours=1)

logger = logging.getLogger("lode.ingest")


class Shown(msgspec.Struct, frozen=True, array_like=True):
    """How many rows of a stream are visible, and since which moment."""

    rows: int
    at: datetime


class _Checkpoint(msgspec.Struct, frozen=True):
    snapshot: str | None
    streams: dict[str, Shown]


class Progress:
    """What the snapshots of one table say about its streams. Not safe for threads: its writer locks."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._since_checkpoint = 0
        self._head: str | None = None
        self._shown: dict[str, Shown] = {}
        # Those of other servers are in the same snapshots, more of them every day.
        self._followed: set[str] = set()

    @property
    def head(self) -> str | None:
        """The newest snapshot it knows."""
        return self._head

    def shown(self, stream: str) -> Shown | None:
        return self._shown.get(stream)

    def rows(self, stream: str) -> int:
        found = self._shown.get(stream)
        return found.rows if found else 0

    def recover(self, dataset: lode.Dataset, streams: Mapping[str, datetime]) -> None:
        """Find the progress of these streams, given when each was created."""
        dataset.settle()  # what a killed server swapped in and did not publish counts too
        saved = self._load() or _Checkpoint(None, {})
        self._followed = set(streams)
        self._head = saved.snapshot
        earliest = min(streams.values(), default=datetime.max.replace(tzinfo=UTC) - _CLOCK_SLACK)
        self._catch_up(dataset, not_before=earliest - _CLOCK_SLACK, up_to_head=saved.streams)
        self.save()

    def catch_up(self, dataset: lode.Dataset) -> set[str]:
        """Read the snapshots that came since; returns the streams that moved."""
        return self._catch_up(dataset, not_before=None, up_to_head={})

    def record(self, snapshot: lode.Snapshot) -> None:
        """Take in a commit of our own; what slipped in before it is for the next ``catch_up``."""
        self._note(snapshot)
        if snapshot.parent_id == self._head:
            self._head = snapshot.id
        self._since_checkpoint += 1
        if self._since_checkpoint >= _COMMITS_PER_CHECKPOINT:
            self.save()

    def follow(self, stream: str) -> None:
        """Take note of a stream that was just created; no snapshot knows of it yet."""
        self._followed.add(stream)

    def forget(self, stream: str) -> None:
        self._followed.discard(stream)
        self._shown.pop(stream, None)

    def save(self) -> None:
        """Keep a checkpoint. Losing it costs a longer walk at the next start, nothing else."""
        self._since_checkpoint = 0
        fresh = self._file.with_suffix(".new")
        try:
            fresh.write_bytes(msgspec.json.encode(_Checkpoint(self._head, self._shown)))
            os.replace(fresh, self._file)  # noqa: PTH105, the same thing in fewer layers
        except OSError as error:
            logger.warning("the checkpoint %s could not be written: %s", self._file, error)

    def _load(self) -> _Checkpoint | None:
        with contextlib.suppress(FileNotFoundError, msgspec.DecodeError):
            return msgspec.json.decode(self._file.read_bytes(), type=_Checkpoint)
        return None

    def _catch_up(
        self, dataset: lode.Dataset, *, not_before: datetime | None, up_to_head: Mapping[str, Shown]
    ) -> set[str]:
        moved: set[str] = set()
        newest: str | None = None
        for snapshot in dataset.history():
            newest = newest or snapshot.id
            if snapshot.id == self._head:
                # Only now: a lake brought back from a copy may be older than its checkpoint.
                before = {stream: shown for stream, shown in up_to_head.items() if stream in self._followed}
                self._shown = {**before, **self._shown}
                break
            if not_before is not None and snapshot.created_at < not_before:
                break
            moved |= self._note(snapshot)
        self._head = newest
        return moved

    def _note(self, snapshot: lode.Snapshot) -> set[str]:
        """Take in one snapshot; progress only grows, so the order in which they are read does not matter."""
        moved: set[str] = set()
        written = snapshot.metadata.get(METADATA)
        streams = written.get("streams") if isinstance(written, dict) else None
        for stream, rows in streams.items() if isinstance(streams, dict) else ():
            if stream not in self._followed:
                continue
            known = self._shown.get(stream)
            if isinstance(rows, int) and (known is None or rows > known.rows):
                self._shown[stream] = Shown(rows, snapshot.created_at)
                moved.add(stream)
        return moved
