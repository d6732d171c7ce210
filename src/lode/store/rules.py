"""The small rules all stores here keep alike: what a prefix may be, what bytes are, what equals what."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lode.errors import InvalidPathError
from lode.store.protocol import check_path

if TYPE_CHECKING:
    from typing_extensions import Buffer


def check_prefix(prefix: str) -> str:
    """Return ``prefix`` if some path may start with it, else raise ``InvalidPathError``."""
    try:
        # Whatever the last segment is so far, one more letter makes it a whole one.
        check_path(f"{prefix}x")
    except InvalidPathError:
        raise InvalidPathError(f"no path can start with prefix {prefix!r}") from None
    return prefix


def byte_view(data: Buffer) -> memoryview:
    """Return any buffer as a flat view of its bytes, copied only where it is not contiguous."""
    view = memoryview(data)
    if not view.c_contiguous or not view.nbytes:
        # An empty view of many dimensions cannot be cast.
        return memoryview(view.tobytes())
    return view.cast("B")


def same_content(current: bytes | None, expected: bytes | None) -> bool:
    """Compare the way a swap does: white space around content says nothing, absence says all."""
    if current is None or expected is None:
        return current is expected
    return current.strip() == expected.strip()
