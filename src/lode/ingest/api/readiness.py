"""Readiness: the lake exists, is writable, and is the one that the server was started on.

A lake has a marker, an object with an id. The state directory of a server has the same id. So the server does
not mistake the empty directory of an unmounted disk for its lake, and does not drop the streams of a lake at
another address.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
import uuid
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from lode.errors import InvalidOptionError, NotFoundError, OutcomeUnknownError, PathExistsError, StoreError
from lode.store.protocol import SupportsCompareAndSwap

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lode.store.protocol import Store

T = TypeVar("T")

MARKER: Final = "catalog/lake.json"
# An answer is reused for the first, and awaited for the second.
MAX_AGE_SECONDS: Final = 1.0
MAX_WAIT_SECONDS: Final = 2.0
# Writes to an object store cost more than reads.
WRITE_INTERVAL_SECONDS: Final = 10.0
MAX_START_SECONDS: Final = 30.0

logger = logging.getLogger("lode.ingest")


class _Marker(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="lode-lake"):
    format_version: str = "1.0.0"
    id: str


class Lake:
    """The lake of one server. Its methods block; ``Readiness`` calls them in the background."""

    def __init__(self, store: Store) -> None:
        assert isinstance(store, SupportsCompareAndSwap)
        self._store: Store = store
        self._swap = store.compare_and_swap
        self._content = b""
        self._written = 0.0

    @property
    def url(self) -> str:
        return self._store.url

    def open(self, state: Path) -> None:
        """Find or create the marker of the lake; refuse the state directory of another lake."""
        remembered = state / "lake"
        try:
            known = remembered.read_text("utf-8").strip() if remembered.is_file() else ""
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidOptionError(f"{remembered} cannot be read ({error}): restore it") from None
        try:
            self._content = self._read_marker() or (b"" if known else self._create_marker())
        except StoreError as error:
            raise StoreError(f"the lake {self.url} cannot be used: {error}") from error
        own = self._id() if self._content else ""
        if known and known != own:
            raise InvalidOptionError(
                f"the state directory {state} belongs to another lake than {self.url}, or that lake was "
                "emptied: give the right --root, or another --state"
            )
        if not known:
            try:
                state.mkdir(parents=True, exist_ok=True)
                remembered.write_text(f"{own}\n", "utf-8")
            except OSError as error:
                raise InvalidOptionError(
                    f"the state directory {state} cannot be used ({error.strerror}): choose another with "
                    "--state"
                ) from None

    def problem(self) -> str | None:
        """Return the lake's problem in a sentence without its name; None if there is none."""
        try:
            found = self._read_marker()
            if found is None:
                return "the lake is missing"
            if found.strip() != self._content.strip():
                return "another lake is at the address of this server's lake"
            if time.monotonic() - self._written > WRITE_INTERVAL_SECONDS:
                self._swap(MARKER, found, found)
                self._written = time.monotonic()
        except OutcomeUnknownError as error:
            logger.warning("the lake %s may not be writable: %s", self.url, error)
            return "the lake cannot be written"
        except Exception as error:  # any error means that the lake is unusable
            logger.warning("the lake %s does not answer: %s", self.url, error)
            return "the lake cannot be used"
        return None

    def _read_marker(self) -> bytes | None:
        try:
            return self._store.get(MARKER)
        except NotFoundError:
            return None

    def _create_marker(self) -> bytes:
        content = msgspec.json.format(msgspec.json.encode(_Marker(id=uuid.uuid4().hex)), indent=2)
        try:
            self._store.put(MARKER, content)
        except PathExistsError:  # another server has created it
            return self._store.get(MARKER)
        return content

    def _id(self) -> str:
        try:
            return msgspec.json.decode(self._content, type=_Marker).id
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise InvalidOptionError(
                f"{MARKER} of the lake {self.url} is damaged ({error}): restore it from a backup"
            ) from None


class Readiness:
    """Whether the server accepts writes, cached for one second. For the server's event loop only.

    Args:
        lake: The lake to check.
        max_wait: The maximum time for a check, in seconds.
    """

    def __init__(self, lake: Lake, *, max_wait: float = MAX_WAIT_SECONDS) -> None:
        self._lake = lake
        self._max_wait = max_wait
        self._check: Future[str | None] | None = None
        self._started = 0.0
        self.stopping = False

    async def problem(self) -> str | None:
        """Return the reason why the server is not ready; None if it is."""
        if self.stopping:
            return "stopping"
        age = time.monotonic() - self._started
        # One check at a time: a store that hangs must not accumulate threads.
        if self._check is None or (self._check.done() and age > MAX_AGE_SECONDS):
            self._check, self._started, age = in_background(self._lake.problem), time.monotonic(), 0.0
        if not await _is_done(self._check, self._max_wait - age):
            return "the lake does not answer"
        return self._check.result()


async def open_lake(store: Store, state: Path) -> Lake:
    """Open the lake, or raise an error that names it, within half a minute."""
    lake = Lake(store)
    opening = in_background(lambda: lake.open(state))
    if not await _is_done(opening, MAX_START_SECONDS):
        raise StoreError(f"the lake {store.url} does not answer: check its address and its store options")
    opening.result()
    return lake


async def _is_done(future: Future[T], seconds: float) -> bool:
    if not future.done():
        done = asyncio.Event()
        loop = asyncio.get_running_loop()
        # Not asyncio.wrap_future: it would log an exception that only the future itself delivers.
        future.add_done_callback(lambda _: _set_from_thread(loop, done))
        with suppress(TimeoutError):
            await asyncio.wait_for(done.wait(), timeout=max(0.0, seconds))
    return future.done()


def _set_from_thread(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
    with suppress(RuntimeError):  # the loop is closed, and no task waits
        loop.call_soon_threadsafe(event.set)


def in_background(work: Callable[[], T]) -> Future[T]:
    """Run ``work`` on a thread that does not keep the process alive: a store may hang for minutes."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="lode-lake", daemon=True).start()
    return future
