"""The files of a load job as the server sees them: another process reads them and sends batches."""

from __future__ import annotations

import logging
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import msgspec

from lode.ingest.jobs.formats.source import FORMATS, TooManyErrors, bounded, unreadable
from lode.ingest.status import Code, Refused
from lode.ingest.types.columns import TableSchema
from lode.lazy import pa
from lode.sandbox.peer import PeerError
from lode.sandbox.processes import ProcessLostError, Profile

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from pathlib import Path
    from typing import Self

    from lode.sandbox.processes import Process, Processes

_MODULE: Final = "lode.ingest.jobs.formats.process"

logger = logging.getLogger("lode.ingest")


@dataclass(frozen=True, slots=True)
class Request:
    """What a process reads.

    Attributes:
        paths: The files.
        format: One of ``FORMATS``.
        settings: The configuration of the job.
        given: The columns of the configuration; None if it has none.
        size: The bytes of all files.
    """

    paths: list[Path]
    format: str
    settings: dict[str, Any]
    given: TableSchema | None
    size: int


class Limits(NamedTuple):
    """What one job may use: ``Settings.load_bytes`` and ``Settings.load_time``."""

    memory_bytes: int
    seconds: float


class Described(NamedTuple):
    """The columns of the first file.

    Attributes:
        schema: None if the file names none.
        named: Whether the file itself has their names. Otherwise they were made up.
    """

    schema: TableSchema | None
    named: bool


class Bad(msgspec.Struct):
    """The bad rows that were skipped."""

    count: int = 0
    errors: list[dict[str, str]] = msgspec.field(default_factory=list)


class _Sent(msgspec.Struct):
    """The columns as a process sends them."""

    schema: TableSchema | None
    named: bool


class _Described(msgspec.Struct):
    """An error as a process sends it: see ``process.describe``."""

    type: str = "other"
    code: Code = Code.INVALID_ARGUMENT
    text: str = ""
    reason: str = ""
    location: str = ""
    errors: list[dict[str, str]] | None = None


class Files:
    """The files of one job. A context manager; it ends with the job.

    Args:
        processes: Those of the server.
        request: What is read.
        limits: What the process may use.
        is_cancelled: Whether the job was asked to stop.
    """

    def __init__(
        self, processes: Processes, request: Request, limits: Limits, is_cancelled: Callable[[], bool]
    ) -> None:
        self._processes = processes
        self._request = request
        self._limits = limits
        self._is_cancelled = is_cancelled
        self._process: Process | None = None
        # Rows that were not read to their end: the process is still busy with them.
        self._reading: Generator[pa.RecordBatch] | None = None
        self.bad = Bad()

    def __enter__(self) -> Self:
        try:
            self._open()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._used.pid

    def schema(self) -> Described:
        """The columns of the first file."""
        with self._refusals():
            sent = msgspec.convert(self._used.call("schema"), _Sent)
            return Described(sent.schema, sent.named)

    def batches(self, schema: TableSchema) -> Iterator[pa.RecordBatch]:
        """The rows of all files in ``schema.arrow``. May be called again, which begins again."""
        if self._reading is not None:  # the process was asked to stop
            self._close()
            self._open()
        with self._refusals():
            arrow, rows = self._used.rows("rows", schema)
            self._reading = found = cast("Generator[pa.RecordBatch]", rows)
            if not arrow.equals(schema.arrow, check_metadata=True):
                raise PeerError({"text": "the rows have other columns"})
            yield from bounded(found, self._request.size)
            self._reading = None
            self.bad = msgspec.convert(self._used.call("bad"), Bad)

    @property
    def _used(self) -> Process:
        assert self._process is not None
        return self._process

    def _open(self) -> None:
        with self._refusals():
            self._process = self._processes.open(
                Profile(_MODULE, self._limits.memory_bytes),
                {},
                seconds=self._limits.seconds,
                is_cancelled=self._is_cancelled,
            )
            self._process.call("open", self._request)

    def _close(self, *, usable: bool = True) -> None:
        reading, self._reading = self._reading, None
        process, self._process = self._process, None
        if process is None:
            return
        if not usable:
            process.kill("stopped")
        elif reading is not None:
            with suppress(PeerError, ProcessLostError):
                reading.close()
        process.__exit__(None)

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        """Raise a refusal of the job instead of what went wrong in its process."""
        try:
            yield
        except PeerError as error:
            described = _Described()
            with suppress(msgspec.ValidationError):
                described = msgspec.convert(error.description, _Described)
            self._reading = None  # it has answered
            if described.type != "refused":
                self._close(usable=False)
            raise self._restored(described) from None
        except ProcessLostError as lost:
            self._close(usable=False)
            raise self._lost(lost) from None
        except (msgspec.ValidationError, pa.ArrowException) as error:  # a process that was taken over
            self._close(usable=False)
            raise self._restored(_Described(text=str(error))) from None

    def _restored(self, described: _Described) -> Refused:
        if described.type == "memory":
            return self._no_memory()
        if described.type != "refused":
            logger.warning("a file cannot be read: %r", described.text)
            return unreadable(FORMATS[self._request.format], described.text)
        if described.errors is not None:
            return TooManyErrors(described.text, described.errors)
        return Refused(described.code, described.text, reason=described.reason, location=described.location)

    def _lost(self, lost: ProcessLostError) -> Refused:
        if lost.reason == "memory" and not lost.is_crash:
            return self._no_memory()
        if lost.reason == "time":
            return Refused(
                Code.DEADLINE_EXCEEDED,
                f"The load job takes longer than {self._limits.seconds:g} seconds: load smaller files, or "
                "start the server with a larger --load-time.",
                reason="timeout",
            )
        if lost.reason in ("stopped", "closing"):
            return Refused(
                Code.CANCELLED,
                "Job execution was cancelled: User requested cancellation",
                reason="stopped",
            )
        return unreadable(FORMATS[self._request.format], "its reader has ended, so it is damaged")

    def _no_memory(self) -> Refused:
        return Refused(
            Code.RESOURCE_EXHAUSTED,
            f"Resources exceeded: reading the {FORMATS[self._request.format]} file takes more than "
            f"{self._limits.memory_bytes:,} bytes of memory, or it is damaged: load smaller files with "
            "smaller rows, or start the server with a larger --load-bytes.",
            reason="resourcesExceeded",
        )
