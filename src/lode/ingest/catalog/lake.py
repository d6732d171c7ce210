"""The identity of a lake.

A lake has a marker, an object with an id. The state directory of a server has the same id. So the server does
not mistake the empty directory of an unmounted disk for its lake, and does not drop the streams of a lake at
another address. Before it begins the history of a table, or says that a table does not exist, it looks at the
marker.
"""

from __future__ import annotations

import logging
import time
import uuid
from typing import TYPE_CHECKING, Final

import msgspec

from lode.errors import (
    InvalidOptionError,
    NotFoundError,
    OutcomeUnknownError,
    PathExistsError,
    StoreError,
    StoreMissingError,
)
from lode.store.protocol import SupportsCompareAndSwap

if TYPE_CHECKING:
    from pathlib import Path

    from lode.store.protocol import Store

MARKER: Final = "catalog/lake.json"
# Writes to an object store cost more than reads.
WRITE_INTERVAL_SECONDS: Final = 10.0

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
            self._content = self._read_marker() or (b"" if known else self._first_marker(state))
        except StoreError as error:
            raise StoreError(f"the lake {self.url} cannot be used: {error}") from error
        own = self._id() if self._content else ""
        if known and known != own:
            raise InvalidOptionError(
                f"the state directory {state} belongs to another lake than {self.url}, or that lake was "
                "emptied or is not mounted: bring it back, give the right --root, or another --state"
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

    def check(self) -> None:
        """Refuse to go on if this is not the lake that was opened: what is missing then may only be away.

        Raises:
            StoreError: The lake is missing, or another one is at its address.
        """
        problem = self._mistaken(self._read_marker())
        if problem is not None:
            raise StoreError(f"{problem} ({self.url}): bring it back, then try again")

    def _mistaken(self, found: bytes | None) -> str | None:
        if found is None:
            return "the lake is missing"
        if found.strip() != self._content.strip():
            return "another lake is at the address of this server's lake"
        return None

    def problem(self) -> str | None:
        """Return the lake's problem in a sentence without its name; None if there is none."""
        try:
            found = self._read_marker()
            mistaken = self._mistaken(found)
            if mistaken is not None or found is None:
                return mistaken
            if time.monotonic() - self._written > WRITE_INTERVAL_SECONDS:
                self._swap(MARKER, found, found)
                self._written = time.monotonic()
        except StoreMissingError as error:
            logger.warning("the lake %s is missing: %s", self.url, error)
            return "the lake is missing"
        except OutcomeUnknownError as error:
            logger.warning("the lake %s may not be writable: %s", self.url, error)
            return "the lake cannot be written"
        except Exception as error:  # any error means that the lake is unusable
            logger.warning("the lake %s does not answer: %s", self.url, error)
            return "the lake cannot be used"
        return None

    def _first_marker(self, state: Path) -> bytes:
        """Create the marker, unless the state directory has streams and the lake has nothing."""
        streams = state / "streams"
        if (
            streams.is_dir()
            and any(streams.iterdir())
            and not any(True for _ in self._store.list("catalog/"))
        ):
            raise InvalidOptionError(
                f"the state directory {state} has write streams, and the lake {self.url} has no tables: "
                "bring the lake of these streams back, give the right --root, or another --state"
            )
        return self._create_marker()

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
