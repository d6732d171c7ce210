"""Snapshot ids and the rule for ids people choose."""

from __future__ import annotations

import os
import re
import threading
from typing import TYPE_CHECKING, Final

from lode.errors import InvalidOptionError, InvalidPathError
from lode.format.pointer import CLOSED

if TYPE_CHECKING:
    from collections.abc import Callable

# The longest name of a file or folder on the usual file systems.
MAX_ID_BYTES: Final = 255
# Folders at the top of a lake, where a flat layout has its datasets.
LAKE_FOLDERS: Final = frozenset({"datasets", "volumes", "catalog", "ingest-state", "pipelines"})
# Below these names are all datasets and all volumes.
RESERVED_IDS: Final = frozenset({"datasets", "volumes"})
# What a history has besides its snapshots and data files.
HISTORY_FOLDERS: Final = frozenset(
    ("definition", "history", "keys", "partitions", "segments", "snapshots", "state", "tags", "waiting")
)
_RESERVED: Final = {
    "dataset": RESERVED_IDS,
    "volume": RESERVED_IDS,
    # A flat layout has all of them in one folder.
    "snapshot": HISTORY_FOLDERS | {"data", "latest"},
    # In a flat layout these objects would be the manifest or the intent of a snapshot "tags".
    "tag": frozenset({"intent", "manifest"}),
}


# No object store has longer keys.
MAX_KEY_BYTES: Final = 1024
_ID: Final = re.compile(r"[^/\\\x00-\x1f\x7f]+")


_GENERATED: Final = re.compile(r"[0-9]{19}-[0-9a-f]{16}(?:-drop)?")
_OF_GO: Final = re.compile(r"[0-9]{18,20}")


def is_generated(id: str) -> bool:
    """Whether an id is one that ``SnapshotIds`` makes, which is never made again."""
    return _GENERATED.fullmatch(id) is not None


def is_of_go(id: str) -> bool:
    """Whether an id is one that the Go implementation makes: nanoseconds since 1970."""
    return _OF_GO.fullmatch(id) is not None


class SnapshotIds:
    """Makes ids that sort by time and are unique across processes and hosts.

    Nanoseconds since 1970 (19 digits until the year 2286, as the Go implementation writes them), then
    64 random bits. Within one process each id sorts after the one before, whatever the clock does.
    """

    def __init__(self, now_ns: Callable[[], int], random_bits: Callable[[int], int]) -> None:
        self._now_ns = now_ns
        self._random_bits = random_bits
        self._last = 0
        self._lock = threading.Lock()

    def next(self) -> str:
        with self._lock:
            self._last = max(self._now_ns(), self._last + 1)
            return f"{self._last:019d}-{self._random_bits(64):016x}"


def is_utf8(text: str) -> bool:
    """Return whether text can be stored at all: a lone surrogate cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_id(text: str) -> bool:
    """Return whether ``text`` can be an id, which is one segment of a path."""
    return (
        _ID.fullmatch(text) is not None
        and ".." not in text
        and text != "."
        and len(text) <= MAX_KEY_BYTES
        and (text.isascii() or is_utf8(text))
    )


def shortened(value: object, most: int = 80) -> str:
    """Return ``repr(value)`` for a message, cut where it is long: damaged objects can hold anything."""
    text = repr(value[: 2 * most] if isinstance(value, str | bytes) else value)
    return text if len(text) <= most else f"{text[:most]}…"


def check_writer(writer: str | None) -> str | None:
    """Return the name of the writer: as given, else ``$LODE_WRITER``, else empty."""
    if writer is None:
        return os.environ.get("LODE_WRITER") or None
    if not isinstance(writer, str) or not writer or not is_utf8(writer):
        raise InvalidOptionError(f"a writer is a name that history can show, got {writer!r}")
    return writer


def check_new_id(id: str, *, kind: str) -> str:
    """Return an id if something may be written under it, else raise ``InvalidPathError``.

    Stricter than ``check_id``: what an earlier version or Go has written under such an id can still be read.
    """
    check_id(id, kind=kind)
    # A file system may ignore case.
    if id.casefold() in _RESERVED[kind]:
        raise InvalidPathError(f"{kind} id {id!r} is a name that Lode uses itself: choose another")
    if id.casefold().startswith(".lode-") or id.casefold().endswith(".lock"):
        raise InvalidPathError(
            f"{kind} id {id!r} is named like a temporary or lock file: choose one that does not start with "
            "'.lode-' and does not end with '.lock'"
        )
    if kind == "snapshot" and id.endswith(CLOSED):
        raise InvalidPathError(f"{kind} id {id!r} ends like a closed pointer: leave {CLOSED!r} out")
    if id != id.strip() or id.endswith("."):
        # A pointer is read without the white space around it, and Azure and Windows drop a dot at the end.
        raise InvalidPathError(
            f"{kind} id {id!r} begins or ends with white space, or ends with a dot: leave that out"
        )
    size = len(id.encode())
    if size > MAX_ID_BYTES:
        raise InvalidPathError(
            f"{kind} id {id[:40]!r}… has {size} bytes: choose one of {MAX_ID_BYTES} at most, for file systems"
        )
    return id


def check_id(id: str, *, kind: str) -> str:
    """Return a dataset's, volume's or snapshot's id if it can be one path segment.

    Raises:
        InvalidPathError: It cannot.
    """
    if not isinstance(id, str) or not id:
        raise InvalidPathError(f"a {kind} id must be a non-empty string, got {id!r}")
    if "/" in id or "\\" in id or ".." in id or id == ".":
        raise InvalidPathError(f"{kind} id {id!r} may not contain a path separator or '..'")
    if any(ord(char) < 32 or ord(char) == 127 for char in id):
        raise InvalidPathError(f"{kind} id {id!r} contains a control character")
    if not is_utf8(id):
        raise InvalidPathError(f"{kind} id {id!r} is text that UTF-8 cannot carry")
    if not is_id(id):
        raise InvalidPathError(f"{kind} id {shortened(id)} is longer than {MAX_KEY_BYTES} characters")
    return id
