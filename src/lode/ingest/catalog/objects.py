"""Small JSON objects that several servers share: read through a cache, changed by compare-and-swap."""

from __future__ import annotations

import threading
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

import msgspec

from lode.errors import (
    InvalidOptionError,
    ManifestInvalidError,
    NotFoundError,
    OutcomeUnknownError,
    StoreError,
)
from lode.format.manifest import check_version
from lode.ingest.status import Code, Refused
from lode.store.protocol import SupportsCompareAndSwap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lode.runtime import Runtime
    from lode.store.protocol import Store

T = TypeVar("T")
R = TypeVar("R")

_BATCH: Final = 64
_MAX_ATTEMPTS: Final = 30
_MIN_PAUSE_SECONDS: Final = 0.005
_MAX_PAUSE_SECONDS: Final = 0.2


class _Seen(NamedTuple):
    """The last content that was read or written, and when."""

    content: bytes
    record: Any
    at: float


class Objects(Generic[T]):
    """The objects of one kind. Thread-safe, and safe for other processes on the same store.

    Args:
        store: Where they are; it must support compare-and-swap.
        kind: The type of the records for msgspec; each has a ``format_version``.
        check: Raises for a record that decodes but cannot be used.
        confirm: Raises if the store is not the one that it should be, before an object counts as missing.
        max_age: How many seconds a cached record is valid.
        runtime: Clock, randomness and threads.
    """

    def __init__(
        self,
        store: Store,
        kind: Any,
        *,
        check: Callable[[T], object] = lambda _: None,
        confirm: Callable[[], None] = lambda: None,
        max_age: float,
        runtime: Runtime,
    ) -> None:
        if not isinstance(store, SupportsCompareAndSwap):
            raise InvalidOptionError(
                f"{store.url} cannot compare and swap, so two servers on it could undo each other's changes: "
                "keep the catalog on a local, S3, GCS or Azure store"
            )
        self._store: Store = store
        self._swap = store.compare_and_swap
        self._decoder = msgspec.json.Decoder(kind)
        self._check = check
        self._confirm = confirm
        self._max_age = max_age
        self._runtime = runtime
        self._seen: dict[str, _Seen] = {}
        self._lock = threading.Lock()

    def read(self, path: str, *, fresh: bool = False) -> T | None:
        """The record at ``path``, None if there is none; ``fresh`` bypasses the cache."""
        seen = self._seen.get(path)
        if not fresh and seen is not None and self._runtime.monotonic() - seen.at <= self._max_age:
            return self._record(seen)
        return self._fetch(path)[1]

    def recent(self, path: str) -> T | None:
        """The cached record, no matter how old; None if there is none."""
        seen = self._seen.get(path)
        return None if seen is None else self._record(seen)

    def each(self, paths: Iterator[str]) -> Iterator[T]:
        """The records at ``paths``, read from the store, some of them at once."""
        while batch := list(islice(paths, _BATCH)):
            found = self._runtime.each(lambda path: self.read(path, fresh=True), batch)
            yield from (record for record in found if record is not None)

    def change(self, path: str, change: Callable[[T | None], R]) -> R:
        """Replace the record by the result of ``change``; None means no record.

        ``change`` is called again after a conflict. An exception from it ends the change. Each record it
        returns must be unique, so that the outcome is clear if the store's response is lost.
        """
        for attempt in range(_MAX_ATTEMPTS):
            current, record = self._fetch(path)
            replacement = change(record)
            content = encode(replacement)
            if self._swapped(path, current, content):
                with self._lock:
                    self._seen[path] = _Seen(content, replacement, self._runtime.monotonic())
                return replacement
            pause = min(_MAX_PAUSE_SECONDS, _MIN_PAUSE_SECONDS * 2**attempt)
            self._runtime.sleep(pause * self._runtime.random())
        raise Refused(Code.ABORTED, f"{path} is changed by others all the time: try this change again.")

    def _swapped(self, path: str, current: bytes | None, content: bytes) -> bool:
        try:
            return self._swap(path, current, content)
        except OutcomeUnknownError as error:
            if self._get(path) == content:
                return True
            raise Refused(
                Code.UNAVAILABLE,
                f"The change of {path} was sent and the response was lost: check whether it took "
                "effect, then try again.",
            ) from error
        except StoreError as error:
            raise self._named(error) from error

    def _fetch(self, path: str) -> tuple[bytes | None, T | None]:
        with self._lock:
            before = self._seen.get(path)
        asked = self._runtime.monotonic()
        content = self._get(path)
        if content is None:
            if before is not None:
                # Records are never removed: a deleted one is a tombstone.
                raise StoreError(
                    f"lake {self._store.url}: {path} was there and is missing, so the lake was emptied or is "
                    "not mounted: bring it back, or start again to use what is there"
                )
            self._confirm()
            return None, None
        # The same content keeps its record, and with it the values that are cached on the record.
        unchanged = before is not None and before.content == content
        record = before.record if before is not None and unchanged else self._decode(path, content)
        with self._lock:
            # A change by this process in the meantime is newer than the content that was read.
            if self._seen.get(path) is before:
                self._seen[path] = _Seen(content, record, asked)
        return content, record

    def _get(self, path: str) -> bytes | None:
        try:
            return self._store.get(path)
        except NotFoundError:
            return None
        except StoreError as error:
            raise self._named(error) from error

    def _named(self, error: StoreError) -> StoreError:
        """The error with the URL of the lake: a client may use several."""
        return type(error)(f"lake {self._store.url}: {error}")

    def _decode(self, path: str, content: bytes) -> Any:
        try:
            record = self._decoder.decode(content)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise ManifestInvalidError(f"{path} is not a definition this version reads: {error}") from None
        check_version(record.format_version, path)
        try:
            self._check(record)
        except Exception as error:  # any error is caused by the object
            raise ManifestInvalidError(f"{path} is not a definition of a table: {error!r}") from None
        return record

    def _record(self, seen: _Seen) -> T:
        record: T = seen.record
        return record


def encode(record: Any) -> bytes:
    """The stored form of a record."""
    return msgspec.json.format(msgspec.json.encode(record), indent=2)
