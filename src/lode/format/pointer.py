"""The content of a pointer: the id of the newest snapshot, open or closed.

A closed pointer is one that the Go implementation cannot move. Go trims what it reads of a pointer, and its
swap compares the trimmed text with all bytes. So no swap of Go's succeeds on content that ends with a space.
Our own stores ignore white space around content, and readers see the same snapshot in both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

# Another text than the id, so that Go never reads an id before its manifest is there: it would remember that,
# and move the pointer away after it was opened.
CLOSED: Final = "~closed"
# The field of a manifest's extension that says so, in every snapshot after the first that has it.
SHARED: Final = "shared_with_go"


def closed_pointer(snapshot_id: str) -> bytes:
    """The content of a pointer that names this snapshot and is closed."""
    return f"{snapshot_id}{CLOSED}\n".encode()


def named_in(content: bytes) -> bytes:
    """The snapshot that the content of a pointer names, whether it is open or closed."""
    return content.strip().removesuffix(CLOSED.encode())


def is_shared(sequence: int | None, x: Mapping[str, Any] | None) -> bool:
    """Whether Go may work on the history of a snapshot with these fields.

    Go writes no sequence.
    """
    return sequence is None or (x is not None and x.get(SHARED) is True)
