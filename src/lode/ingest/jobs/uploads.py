"""Files that clients upload for jobs: stored in the state directory until their job is done.

They count against the same limit as the rows of PENDING and BUFFERED streams. Uploads do not survive a
restart: a client begins again, under the same job id if it wants.
"""

from __future__ import annotations

import shutil
import threading
import time
import uuid
from typing import TYPE_CHECKING, Final

from lode.ingest.status import Code, Refused, invalid

if TYPE_CHECKING:
    from pathlib import Path

    from lode.ingest.core.limits import StagedBytes

MAX_SESSIONS: Final = 1000
# Sessions that are not used for this long are removed. The service keeps them for a week.
SESSION_SECONDS: Final = 24 * 3600


class Upload:
    """A file that is being uploaded. ``write`` and ``close`` are called by one thread at a time."""

    def __init__(self, path: Path, staged: StagedBytes) -> None:
        self.path = path
        self.size = 0
        self._staged = staged
        self._closed = False
        self._lock = threading.Lock()
        path.touch()

    def write(self, data: bytes) -> None:
        """Append bytes, or refuse them if there is no space."""
        self._staged.reserve(len(data))
        try:
            with self._lock:
                if self._closed:
                    raise invalid("The upload was cancelled: begin another.")
                with self.path.open("ab") as file:
                    file.write(data)
                self.size += len(data)
        except BaseException:
            self._staged.add(-len(data))
            raise

    def truncate(self, size: int) -> None:
        """Remove bytes from the end."""
        with self._lock:
            if size < self.size:
                with self.path.open("r+b") as file:
                    file.truncate(size)
                self._staged.add(size - self.size)
                self.size = size

    def close(self) -> None:
        """Remove the file. Idempotent."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self.path.unlink(missing_ok=True)
            self._staged.add(-self.size)


class Session:
    """A resumable upload: what its job is to be, and the bytes that have arrived.

    Args:
        project: The project of the job.
        body: The request that began the upload. It is on the disk too: there may be many sessions.
        total: The number of bytes of the file, if the client knows.
        upload: The file.
    """

    def __init__(self, project: str, body: Upload, total: int | None, upload: Upload) -> None:
        self.id = uuid.uuid4().hex
        self.project = project
        self.body = body
        self.total = total
        self.upload = upload
        # The job that was started, for a client that has lost the answer.
        self.job_id: str | None = None
        self.busy = False
        self.used = time.monotonic()


class Uploads:
    """The uploads of a server.

    Args:
        directory: Where files are stored. What an earlier process left there is removed.
        staged: Counts their bytes.
    """

    def __init__(self, directory: Path, staged: StagedBytes) -> None:
        self._directory = directory
        self._staged = staged
        self._sessions: dict[str, Session] = {}
        self._lock = threading.Lock()
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True, exist_ok=True)

    def create(self) -> Upload:
        """Begin a file."""
        return Upload(self._directory / uuid.uuid4().hex, self._staged)

    def begin(self, project: str, body: bytes, total: int | None) -> Session:
        """Begin a resumable upload, or refuse it: there are too many, or it is too large."""
        self.expire()
        if total is not None:
            self._staged.check(total)
        with self._lock:
            if len(self._sessions) >= MAX_SESSIONS:
                self._drop_done()
            if len(self._sessions) >= MAX_SESSIONS:
                raise Refused(
                    Code.RESOURCE_EXHAUSTED,
                    f"{len(self._sessions)} uploads are open, the limit is {MAX_SESSIONS}: finish some of "
                    "them, or cancel them with DELETE, then try again.",
                )
            session = Session(project, self.create(), total, self.create())
            self._sessions[session.id] = session
        try:
            session.body.write(body)
        except BaseException:
            self.cancel(session)
            raise
        return session

    def find(self, project: str, id: str) -> Session:
        """The session of this id, or a refusal."""
        found = self._sessions.get(id)
        if found is None or found.project != project:
            raise Refused(
                Code.NOT_FOUND,
                "Not found: the upload is unknown, expired or from before a restart: begin again.",
            )
        found.used = time.monotonic()
        return found

    def cancel(self, session: Session) -> None:
        """Forget a session, and its file unless a job has it."""
        with self._lock:
            self._sessions.pop(session.id, None)
        session.body.close()
        if session.job_id is None:
            session.upload.close()

    def expire(self) -> int:
        """Remove sessions that were not used for long; returns how many."""
        limit = time.monotonic() - SESSION_SECONDS
        old = [session for session in list(self._sessions.values()) if session.used < limit]
        for session in old:
            self.cancel(session)
        return len(old)

    def close(self) -> None:
        """Remove all files."""
        shutil.rmtree(self._directory, ignore_errors=True)

    def _drop_done(self) -> None:
        for session in [each for each in self._sessions.values() if each.job_id is not None]:
            del self._sessions[session.id]
            session.body.close()
