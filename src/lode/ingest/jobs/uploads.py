"""Files that clients upload for jobs: stored in the state directory until their job is done.

They count against the same limit as the rows of PENDING and BUFFERED streams. Uploads do not survive a
restart: a client begins again, under the same job id if it wants.
"""

from __future__ import annotations

import shutil
import threading
import time
import uuid
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from lode.ingest.status import Code, Refused, invalid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from lode.ingest.core.limits import ClientStaged, StagedBytes

MAX_UPLOADS: Final = 1000
MAX_CLIENT_UPLOADS: Final = 100
# Sessions that are not used for this long are removed, those without a byte sooner. The service keeps them
# for a week.
SESSION_SECONDS: Final = 24 * 3600
EMPTY_SESSION_SECONDS: Final = 600


class Upload:
    """A file that is being uploaded. ``write`` and ``close`` are called by one thread at a time."""

    def __init__(self, path: Path, staged: ClientStaged) -> None:
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
        client: Who began it.
        clock: Seconds of a monotonic clock.
    """

    def __init__(
        self,
        project: str,
        body: Upload,
        total: int | None,
        upload: Upload,
        client: str,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.id = uuid.uuid4().hex
        self.project = project
        self.body = body
        self.total = total
        self.upload = upload
        # The job that was started, for a client that has lost the answer.
        self.job_id: str | None = None
        self.client = client
        self.busy = False
        self._clock = clock
        self.used = clock()

    def touch(self) -> None:
        """Remember that it was used now."""
        self.used = self._clock()


class Uploads:
    """The uploads of a server: sessions, and files that arrive in one request.

    Args:
        directory: Where files are stored. What an earlier process left there is removed.
        staged: Counts their bytes.
        most: The number of uploads that may be open.
        of_client: The number of uploads that one client may have open.
        clock: Seconds of a monotonic clock.
    """

    def __init__(
        self,
        directory: Path,
        staged: StagedBytes,
        *,
        most: int = MAX_UPLOADS,
        of_client: int = MAX_CLIENT_UPLOADS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._directory = directory
        self._staged = staged
        self._most, self._of_client = most, of_client
        self._clock = clock
        self._sessions: dict[str, Session] = {}
        self._receiving: Counter[str] = Counter()  # requests with a file, by client
        self._lock = threading.Lock()
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True, exist_ok=True)

    @contextmanager
    def receiving(self, client: str) -> Iterator[Upload]:
        """A file that arrives in one request, and counts as an upload until the end of the request."""
        self.expire()
        with self._lock:
            self._check_room(client)
            self._receiving[client] += 1
        try:
            yield self._create(client)
        finally:
            with self._lock:
                self._receiving -= Counter({client: 1})

    def begin(self, project: str, body: bytes, total: int | None, client: str = "") -> Session:
        """Begin a resumable upload, or refuse it: there are too many, or it is too large."""
        self.expire()
        if total is not None:
            self._staged.check(total, client)
        with self._lock:
            self._check_room(client)
            session = Session(
                project, self._create(client), total, self._create(client), client, clock=self._clock
            )
            self._sessions[session.id] = session
        try:
            session.body.write(body)
        except BaseException:
            self.cancel(session)
            raise
        return session

    def _create(self, client: str) -> Upload:
        return Upload(self._directory / uuid.uuid4().hex, self._staged.of(client))

    def _check_room(self, client: str) -> None:
        """Refuse another upload of a client, or of all. Sessions that are done make room."""
        if self._count(client) >= self._of_client or self._count() >= self._most:
            self._drop_done()
        for whose, taken, limit in (
            (" of this client", self._count(client), self._of_client),
            ("", self._count(), self._most),
        ):
            if taken >= limit:
                raise Refused(
                    Code.RESOURCE_EXHAUSTED,
                    f"{taken} uploads{whose} are open, the limit is {limit}: finish some of them, or cancel "
                    "them with DELETE, then try again.",
                )

    def _count(self, client: str | None = None) -> int:
        if client is None:
            return len(self._sessions) + self._receiving.total()
        own = sum(session.client == client for session in self._sessions.values())
        return own + self._receiving[client]

    def find(self, project: str, id: str) -> Session:
        """The session of this id, or a refusal."""
        found = self._sessions.get(id)
        if found is None or found.project != project:
            raise Refused(
                Code.NOT_FOUND,
                "Not found: the upload is unknown, expired or from before a restart: begin again.",
            )
        found.touch()
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
        now = self._clock()
        with self._lock:
            sessions = list(self._sessions.values())
        old = [session for session in sessions if session.used < now - _time_to_live(session)]
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


def _time_to_live(session: Session) -> float:
    return SESSION_SECONDS if session.upload.size else EMPTY_SESSION_SECONDS
