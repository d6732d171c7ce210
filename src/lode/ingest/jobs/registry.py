"""The jobs of a server: started, found, listed, cancelled and deleted by their ids."""

from __future__ import annotations

import json
import logging
import re
import threading
import uuid
from collections import Counter
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from lode.errors import LodeError, StoreError
from lode.format.ids import shortened
from lode.ingest.jobs.job import Job, JobType
from lode.ingest.jobs.queue import WorkQueue
from lode.ingest.jobs.shape import check_shape
from lode.ingest.status import Code, Refused, invalid

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future
    from pathlib import Path

# The requests of jobs that run or wait, which are in memory: of all, and of one client.
MAX_WAITING_BYTES: Final = 256 << 20
MAX_CLIENT_WAITING_BYTES: Final = 64 << 20
# Finished jobs that are kept: their number, and the bytes of their records.
MAX_FINISHED: Final = 1000
MAX_FINISHED_BYTES: Final = 1 << 30
# Records of finished jobs up to this size stay in memory. Larger ones are read from the state directory.
MAX_KEPT_RECORD_BYTES: Final = 8 << 10
# Dry runs that are computed at the same time, and how long a caller waits for one.
CHECKS: Final = 2
CHECK_SECONDS: Final = 60.0
KINDS: Final = ("query", "load", "copy", "extract")
_JOB_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,1024}")
_LOCATION: Final = re.compile(r"[A-Za-z0-9-]{1,64}")

logger = logging.getLogger("lode.ingest")


class Jobs:
    """The jobs of one server. Thread-safe.

    Args:
        location: The location of jobs that are started without one.
        directory: Where finished jobs are stored, so that they are known after a restart, and those with a
            large record take no memory. None stores none.
        finished: Called with every job that is done.
        queue: Where they wait; one of their own if not given.
    """

    def __init__(
        self,
        location: str,
        directory: Path | None = None,
        finished: Callable[[Job], None] = lambda _job: None,
        queue: WorkQueue | None = None,
    ) -> None:
        self._finished = finished
        self._location = location
        self._directory = directory
        self._types: dict[str, JobType] = {}
        self.queue = WorkQueue() if queue is None else queue
        self.queue.add_kind("check", CHECKS)
        self._jobs: dict[tuple[str, str], Job] = {}  # by project and id, oldest first
        self._futures: dict[Job, Future[None]] = {}
        self._checks: dict[Job, Future[None]] = {}  # dry runs that are not done
        self._lock = threading.Lock()
        self._closing = False
        if directory is not None:
            directory.mkdir(parents=True, exist_ok=True)
            self._restore(directory)

    def register(self, kind: str, job_type: JobType) -> None:
        """Set what jobs of a kind do.

        Args:
            kind: ``query``, ``load``, ``copy`` or ``extract``.
            job_type: Runs them.
        """
        self._types[kind] = job_type
        self.queue.add_kind(kind, job_type.workers)

    def insert(
        self,
        project: str,
        configuration: dict[str, Any],
        *,
        id: str | None = None,
        location: str | None = None,
        payload: Any = None,
        client: str = "",
        size: int = 0,
    ) -> Job:
        """Start a job, or refuse it. A dry run is a job that is not kept.

        Args:
            project: The project.
            configuration: With one key for the type: ``load``, ``copy``, ``extract`` or ``query``.
            id: Its id; a new one if not given.
            location: Its location; that of the server if not given.
            payload: What the request brought along, for ``JobType.run``.
            client: Who asks for it: the work of each client has a share of the server.
            size: The bytes of the request.
        """
        kind = _kind(configuration)
        check_shape(configuration)
        job_type = self._types.get(kind)
        if job_type is None:
            raise Refused(Code.UNIMPLEMENTED, _NO_TYPE[kind])
        job = Job(
            project,
            _checked(id, _JOB_ID, "jobReference.jobId") if id else f"job_{uuid.uuid4().hex}",
            _checked(location, _LOCATION, "jobReference.location") if location else self._location,
            configuration,
            kind,
        )
        job.payload = payload
        job.client, job.size = client, size
        self._check_new(job)
        job_type.check(job)
        if configuration.get("dryRun"):
            if kind != "query":
                raise invalid(f"A dry run of a {kind} job is not supported: leave dryRun out.")
            with self._lock:
                self._check_bytes(job)
                try:
                    self._checks[job] = self.queue.submit(
                        "check", client, lambda: self._run_check(job, job_type)
                    )
                except Refused:
                    self._checks.pop(job, None)
                    raise
            return job
        with self._lock:
            self._check_new(job)
            self._check_bytes(job)
            self._jobs[_key(job.project, job.id)] = job
            try:
                # It begins only after it is known here.
                self._futures[job] = self.queue.submit(kind, client, lambda: self._run(job, job_type))
            except Refused:
                del self._jobs[_key(job.project, job.id)]
                raise
        return job

    def check(self, project: str, configuration: dict[str, Any], *, payload: Any, client: str = "") -> Job:
        """Do a dry run on this thread's time; returns it when it is done, or raises its refusal."""
        with self.queue.blocking("check", client):
            job = self.insert(project, {**configuration, "dryRun": True}, payload=payload, client=client)
            done = job.wait(CHECK_SECONDS)
        return checked(job, done=done)

    def get(self, project: str, id: str, location: str | None = None) -> Job:
        """The job of this id, or a refusal with NOT_FOUND."""
        found = self._jobs.get(_key(project, id))
        if found is None or (location and location.lower() != found.location.lower()):
            raise Refused(
                Code.NOT_FOUND, f"Not found: Job {project}:{location or self._location}.{shortened(id)[1:-1]}"
            )
        return found

    def list(
        self,
        project: str,
        *,
        after: str = "",
        limit: int | None = None,
        keep: Callable[[Job], bool] = lambda _job: True,
    ) -> list[Job]:
        """The jobs of a project, newest first, starting after the job ``after``."""
        with self._lock:
            jobs = [job for job in reversed(self._jobs.values()) if job.project == project]
        if after:
            ids = [job.id for job in jobs]
            jobs = jobs[ids.index(after) + 1 :] if after in ids else []
        return [job for job in jobs if keep(job)][:limit]

    def cancel(self, job: Job) -> None:
        """Ask a job to stop. One that has not begun never does."""
        job.cancel()
        with self._lock:
            future = self._futures.get(job)
        if future is not None and future.cancel():
            self._finish(job, _cancelled(job))

    def delete(self, job: Job) -> None:
        """Forget a finished job."""
        if job.state != "DONE":
            raise invalid(f"Job {job.full_id} is still running: cancel it first, or wait for it.")
        with self._lock:
            self._forget(job)

    def stop_checks(self) -> None:
        """Refuse dry runs from now on, also those that run or wait: their clients wait for the answer."""
        self._closing = True
        self.queue.stop()
        with self._lock:
            checks = list(self._checks.items())
        for job, future in checks:
            job.cancel()
            if future.cancel():
                self._end_check(job, _cancelled(job))

    def close(self) -> None:
        """Stop the jobs and wait for their threads. The ids of those that are stopped can be used again."""
        self.stop_checks()
        with self._lock:
            running = list(self._futures)
        for job in running:
            self.cancel(job)
        self.queue.close()

    # -- internals -----------------------------------------------------------------------------

    def _check_new(self, job: Job) -> None:
        if _key(job.project, job.id) in self._jobs:
            raise Refused(Code.ALREADY_EXISTS, f"Already Exists: Job {job.full_id}")

    def _check_bytes(self, job: Job) -> None:
        known = [*self._futures, *self._checks]
        waiting = sum(each.size for each in known)
        own = sum(each.size for each in known if each.client == job.client)
        if waiting + job.size > MAX_WAITING_BYTES or own + job.size > MAX_CLIENT_WAITING_BYTES:
            raise Refused(
                Code.RESOURCE_EXHAUSTED,
                f"Jobs with requests of {waiting:,} bytes are running or waiting, {own:,} of them of this "
                f"client; the limits are {MAX_WAITING_BYTES:,} and {MAX_CLIENT_WAITING_BYTES:,}: wait for "
                "some of them, then try again.",
            )

    def _run(self, job: Job, job_type: JobType) -> None:
        self._finish(job, self._attempt(job, job_type))

    def _run_check(self, job: Job, job_type: JobType) -> None:
        self._end_check(job, self._attempt(job, job_type))

    def _attempt(self, job: Job, job_type: JobType) -> Refused | None:
        """Do the work of a job; returns why it failed."""
        with self._lock:
            pass  # ``insert`` holds it until it has stored the future
        try:
            job.begin()
            job.check_cancelled()
            job_type.run(job)
        except Refused as refusal:
            return refusal
        except Exception as error:  # every job needs an end
            logger.exception("job %s failed", job.full_id)
            return _failure(error)
        return None

    def _end_check(self, job: Job, refusal: Refused | None) -> None:
        if self._closing and refusal is not None and refusal.code is Code.CANCELLED:
            refusal = Refused(Code.UNAVAILABLE, "The server stops: try again.")
        job.conclude(refusal)
        job.finish()
        with self._lock:
            self._checks.pop(job, None)

    def _finish(self, job: Job, refusal: Refused | None) -> None:
        payload = job.payload
        job.conclude(refusal)
        if hasattr(payload, "close"):
            payload.close()
        stopped = self._closing and refusal is not None and refusal.code is Code.CANCELLED
        self._finished(job)
        self._store(job, durable=self._types[job.kind].durable and not stopped)
        job.finish()
        with self._lock:
            self._futures.pop(job, None)
            self._drop_old()

    def _drop_old(self) -> None:
        """Forget finished jobs above the limits: the oldest of the client that has the most."""
        done = [kept for kept in self._jobs.values() if kept.state == "DONE"]
        size = sum(job.size for job in done)
        while len(done) > MAX_FINISHED or size > MAX_FINISHED_BYTES:
            by_client: Counter[str] = Counter()
            for job in done:
                by_client[job.client] += 1 if len(done) > MAX_FINISHED else job.size
            most = by_client.most_common(1)[0][0]
            old = next(job for job in done if job.client == most)
            done.remove(old)
            size -= old.size
            self._forget(old)

    def _forget(self, job: Job) -> None:
        self._jobs.pop(_key(job.project, job.id), None)
        if self._directory is not None:
            with suppress(OSError):
                self._path(self._directory, job).unlink(missing_ok=True)

    def _store(self, job: Job, *, durable: bool) -> None:
        """Write the record of a job, if a later process is to know it or if it is large."""
        try:
            text = json.dumps({**job.record(), "durable": durable}, default=str).encode()
            job.size = len(text)
            large = len(text) > MAX_KEPT_RECORD_BYTES
            if self._directory is None or not (durable or large):
                return
            path = self._path(self._directory, job)
            new = path.with_suffix(".new")
            new.write_bytes(text)
            new.replace(path)
        except (OSError, ValueError, RecursionError) as error:
            # After a restart the job is unknown. Its commit has a key, so it cannot be repeated.
            logger.warning("job %s cannot be stored: %s", job.full_id, error)
            return
        if large:
            job.shelve(path)

    def _restore(self, directory: Path) -> None:
        found: list[Job] = []
        for path in directory.iterdir():
            try:
                text = path.read_bytes()
                record = json.loads(text)
                if path.suffix != ".json" or not record.get("durable", True):
                    raise ValueError("not a job of this process")
                job = Job.restored(record)
                job.size = len(text)
                if job.size > MAX_KEPT_RECORD_BYTES:
                    job.shelve(path)
                found.append(job)
            except (OSError, ValueError, KeyError, TypeError, AttributeError):
                path.unlink(missing_ok=True)  # incomplete: its commit has a key, so it cannot be repeated
        for job in sorted(found, key=lambda job: job.created_ms):
            self._jobs[_key(job.project, job.id)] = job

    @staticmethod
    def _path(directory: Path, job: Job) -> Path:
        return directory / f"{sha256(f'{job.project}:{job.id}'.encode()).hexdigest()[:32]}.json"


def checked(job: Job, *, done: bool) -> Job:
    """A dry run that was waited for, or its refusal."""
    if not done:
        job.cancel()
        raise Refused(
            Code.RESOURCE_EXHAUSTED,
            f"The dry run was not done within {CHECK_SECONDS:g} seconds, as others are computed: try again.",
        )
    if job.refusal is not None:
        raise job.refusal
    return job


_NO_TYPE: Final = {
    "query": "Queries are not supported by this installation: pip install 'lode-store[server,sql]'.",
    "load": "Load jobs are not supported: append rows with the Storage Write API or insertAll.",
    "copy": "Copy jobs are not supported: use the library or Spark.",
    "extract": "Extract jobs are not supported: read rows with the Storage Read API or the library.",
}


def _kind(configuration: Any) -> str:
    if not isinstance(configuration, dict):
        raise invalid("Required parameter is missing: configuration.")
    found = [kind for kind in KINDS if configuration.get(kind) is not None]
    if len(found) != 1 or not isinstance(configuration[found[0]], dict):
        raise invalid(
            "The job configuration must have one of query, load, copy or extract, an object: "
            f"found {', '.join(found) or 'none'}."
        )
    return found[0]


def _checked(text: Any, form: re.Pattern[str], what: str) -> str:
    if not isinstance(text, str) or form.fullmatch(text) is None:
        raise invalid(
            f"Invalid value for {what}: {shortened(str(text))} has other characters than letters, digits, "
            "dashes and underscores, or is too long."
        )
    return text


def _key(project: str, id: str) -> tuple[str, str]:
    return project, id


def _cancelled(job: Job) -> Refused:
    try:
        job.check_cancelled()
    except Refused as refusal:
        return refusal
    raise AssertionError("the job was cancelled")


def _failure(error: Exception) -> Refused:
    if isinstance(error, StoreError | OSError):
        return Refused(Code.UNAVAILABLE, f"The lake's store failed ({error}): start the job again.")
    if isinstance(error, LodeError):
        return Refused(Code.INVALID_ARGUMENT, f"{error}.")
    return Refused(Code.INTERNAL, f"The server failed ({type(error).__name__}): see its log for details.")
