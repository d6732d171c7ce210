"""The state directory of a server: its lock, the logs of its write streams, and which of them are damaged."""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from lode.errors import InvalidOptionError
from lode.ingest.log.acknowledged import LogMissing, read_acknowledged
from lode.ingest.log.record import LogDamaged, LogIncomplete
from lode.ingest.log.stream_log import StreamLog
from lode.ingest.status import Code, Refused

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lode.ingest.names import StreamName

# The creation time of a damaged stream is in its log, which cannot be trusted.
_UNKNOWN: Final = datetime(1970, 1, 1, tzinfo=UTC)

logger = logging.getLogger("lode.ingest")


class Quarantine:
    """Streams with damaged logs. They are refused until repaired; all others continue."""

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._reasons)

    def add(self, stream: str, error: Exception) -> None:
        logger.error(
            "write stream %s is refused until this is repaired and the server restarted: %s", stream, error
        )
        self._reasons[stream] = str(error)

    def check(self, name: StreamName) -> None:
        """Refuse a stream with a damaged log."""
        reason = self._reasons.get(name.stream)
        if reason is not None:
            raise Refused(
                Code.DATA_LOSS,
                f"Write stream {name} is refused: {reason}; then start the server again.",
                entity=str(name),
                ends_call=True,
            )

    @property
    def created(self) -> dict[str, datetime]:
        """The time from which rows of these streams may be visible."""
        return dict.fromkeys(self._reasons, _UNKNOWN)


class StateDir:
    """The state directory of one server, locked until ``close``.

    ``streams/<id>/`` is the log of a stream, ``acknowledged/<id>`` the length of that log, and
    ``tables/<hash>.json`` the progress of a table.
    """

    def __init__(self, directory: Path) -> None:
        self._streams = directory / "streams"
        self._acknowledged = directory / "acknowledged"
        self._tables = directory / "tables"
        self._lock = lock_state_dir(directory, self._streams, self._acknowledged, self._tables)

    def checkpoint(self, dataset_id: str) -> Path:
        """The file for the progress of a table."""
        # A dataset's id may have characters that are not allowed in file names.
        return self._tables / f"{sha256(dataset_id.encode()).hexdigest()[:32]}.json"

    def create_log(self, stream: str, facts: dict[str, Any]) -> StreamLog:
        return StreamLog.create(self._streams / stream, facts, acknowledged=self._acknowledged / stream)

    def open_logs(self, quarantine: Quarantine) -> Iterator[StreamLog]:
        """Open the logs that an earlier process left; those that are damaged go to the quarantine."""
        for directory in sorted(self._streams.iterdir()):
            try:
                log = StreamLog.open(directory, acknowledged=self._acknowledged / directory.name)
            except LogIncomplete:
                shutil.rmtree(directory, ignore_errors=True)  # no client knows this stream
            except (LogDamaged, OSError) as error:
                quarantine.add(directory.name, error)
            else:
                yield log

    def find_missing(self, quarantine: Quarantine) -> None:
        """Quarantine the streams whose log is missing although its acknowledged length is there."""
        for record in sorted(self._acknowledged.iterdir()):
            directory = self._streams / record.name
            if directory.exists():
                continue
            length = read_acknowledged(record)
            if length is None:
                record.unlink()  # neither it nor its log was completed
            else:
                quarantine.add(record.name, LogMissing(directory, record, length.end))

    def close(self) -> None:
        os.close(self._lock)


def lock_state_dir(state: Path, *folders: Path) -> int:
    """Create the state directory and lock it: two servers on one would both own its streams."""
    try:
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(state / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise InvalidOptionError(
            f"the state directory {state} cannot be used ({error.strerror}): choose another with --state"
        ) from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise InvalidOptionError(
            f"another server runs on the state directory {state}: give each its own with --state"
        ) from None
    return lock
