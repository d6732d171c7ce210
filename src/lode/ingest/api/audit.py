"""The audit log: one line of JSON for each change through the server, and for each refused token.

Without a file, the lines go to the logger ``lode.audit``: changes with the level INFO, refused tokens with
WARNING. All text is ASCII with escapes, so that no name of a client can begin a line.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from datetime import UTC, datetime
from logging.handlers import WatchedFileHandler
from typing import TYPE_CHECKING, Any, Final

from lode.errors import InvalidOptionError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lode.ingest.jobs.job import Job

_MAX_CHARS: Final = 500
# Anyone can send wrong tokens: beyond this, they are only counted.
MAX_REFUSALS_PER_SECOND: Final = 10

logger = logging.getLogger("lode.audit")


class Audit:
    """Writes the audit log. Thread-safe.

    Args:
        file: The file that lines are appended to; it may be moved away meanwhile. None logs them.
        clock: Seconds of a monotonic clock.
    """

    def __init__(self, file: Path | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._second, self._refusals, self._omitted = 0, 0, 0
        self._handler = None if file is None else _open(file)

    def change(self, client: str, action: str, target: str, result: str, **more: Any) -> None:
        """Record a change, or the attempt of one.

        Args:
            client: Who.
            action: The method.
            target: The table, stream, job or path.
            result: ``OK``, or the code of the refusal.
            more: Other facts, which are left out if they are empty.
        """
        self._write(
            logging.INFO, {"client": client, "action": action, "target": target, "result": result, **more}
        )

    def refused_token(self, client: str, target: str) -> None:
        """Record a request without a valid token; a line has the number of those left out before it."""
        with self._lock:
            now = int(self._clock())
            if now != self._second:
                self._second, self._refusals = now, 0
            self._refusals += 1
            if self._refusals > MAX_REFUSALS_PER_SECOND:
                self._omitted += 1
                return
            omitted, self._omitted = self._omitted, 0
        facts = {"client": client, "action": "token", "target": target, "result": "UNAUTHENTICATED"}
        self._write(logging.WARNING, {**facts, "omitted": omitted})

    def finished(self, job: Job) -> None:
        """Record the outcome of a job."""
        job = job.loaded()
        destination = job.settings.get("destinationTable")
        table = destination.values() if isinstance(destination, dict) else ()
        query = job.statistics.get("query") or {}
        self.change(
            job.client,
            f"jobs.{job.kind}",
            job.full_id,
            job.errors[0]["reason"] if job.failed and job.errors else "OK",
            statement=query.get("statementType", ""),
            table=".".join(str(part) for part in table),
        )

    def close(self) -> None:
        if self._handler is not None:
            self._handler.close()

    def _write(self, level: int, facts: dict[str, Any]) -> None:
        shown = {name: _cut(value) for name, value in facts.items() if value or name == "result"}
        line = json.dumps({"time": datetime.now(UTC).isoformat(timespec="milliseconds"), **shown})
        if self._handler is None:
            logger.log(level, "%s", line)
        else:
            self._handler.handle(logger.makeRecord(logger.name, level, "", 0, "%s", (line,), None))


def _cut(value: Any) -> Any:
    return f"{value[:_MAX_CHARS]}…" if isinstance(value, str) and len(value) > _MAX_CHARS else value


def _open(file: Path) -> WatchedFileHandler:
    try:
        # Names of tables and clients: for the server's own user. A file that is there keeps its mode.
        os.close(os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600))
        return WatchedFileHandler(file, encoding="ascii")
    except OSError as error:
        raise InvalidOptionError(
            f"the audit log {file} cannot be written ({error.strerror}): choose another with --audit-log"
        ) from None
