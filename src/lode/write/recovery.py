"""Find the head to build on, and finish what other writers left there.

The pointer may name a snapshot without a manifest. With an intent it is published from that. Without one it
dangles: a writer outside this protocol, such as the Go implementation, has crashed or is about to publish.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import msgspec

from lode.errors import NotFoundError, StoreError
from lode.format.ids import is_of_go
from lode.format.manifest import Manifest, encode_manifest
from lode.format.pointer import closed_pointer, is_shared
from lode.read.resolve import GRACE_SECONDS, UNREAD, AnyManifest, Head, head_at
from lode.runtime import PARALLEL_SMALL_REQUESTS
from lode.write.draft import moment_after

if TYPE_CHECKING:
    from collections.abc import Callable

    from lode.read.resolve import Chain, EncodedManifest
    from lode.runtime import Runtime
    from lode.write.publish import Publisher

logger = logging.getLogger("lode.commit")

# The first pause of that wait. Each further one is four times as long, so three fill the grace period.
FIRST_GRACE_PAUSE_SECONDS: Final = 0.2

# How often a writer looks whether a group is published before it helps.
GROUP_LOOKS: Final = 3

M = TypeVar("M", bound=AnyManifest)


class HeadRecovery(Generic[M]):
    """Reads the head of one history and settles what is unfinished there."""

    def __init__(self, chain: Chain[M], runtime: Runtime, publisher: Publisher[M]) -> None:
        self._chain = chain
        self._runtime = runtime
        self._publisher = publisher
        # The last dangling pointer whose grace period has passed.
        self._waited_for: bytes | None = None

    def settle(
        self, pointer: bytes | None = None, may_owe: Callable[[EncodedManifest[M]], bool] | None = None
    ) -> Head[M]:
        """Read the head. If its writer left it unpublished, publish it.

        Args:
            pointer: The pointer's content, if it is known.
            may_owe: Whether this snapshot may be published later, by ``publish_owed``. Its writer has
                probably done that by then.
        """
        head = self._chain.resolve(
            pointer=UNREAD if pointer is None else pointer,
            wait_for_group=None if self._publisher.nearby else self.wait_for_group,
        )
        pending = head.pending
        if pending is None:
            if head.parent is not None and head.names_manifest:
                self.open_pointer(head.parent)
            return head
        if may_owe is not None and not self._publisher.nearby and may_owe(pending):
            return Head(head.pointer, pending.manifest, owed=pending)
        self._publisher.publish(pending)
        self.open_pointer(pending.manifest)
        return head_at(head.pointer, pending.manifest)

    def open_pointer(self, newest: M) -> None:
        """Open the pointer at a published snapshot, if it is closed: see ``lode.format.pointer``.

        No commit depends on it: a writer that finds it closed opens it first, and Go gets a conflict.
        """
        swapping = self._publisher.swapping
        if swapping is None or not is_shared(newest.sequence, newest.x):
            return
        try:
            swapping.compare_and_swap(
                self._chain.paths.pointer, closed_pointer(newest.snapshot_id), newest.snapshot_id.encode()
            )
        except StoreError as error:
            logger.debug("%s: the pointer stays closed: %s", self._chain.name, error)

    def publish_owed(self, head: Head[M]) -> Head[M]:
        """The head, published."""
        return head if head.owed is None else self.published(head.pointer, head.owed)

    def published(self, pointer: bytes | None, placed: EncodedManifest[M]) -> Head[M]:
        """The head at a snapshot that the pointer names, which is published if it is not yet."""
        if self._chain.manifest(placed.manifest.snapshot_id) is None:
            self._publisher.publish(placed)
        self.open_pointer(placed.manifest)
        return head_at(pointer, placed.manifest)

    def wait_for_group(self, pointer: bytes | None, size: int, member: str | None = None) -> None:
        """Give the leader of a group time to publish it, if that is not done.

        Publishing a group takes several writes for each member. If all that wait for it helped, they would
        send the square of that. Most look just before the last of these writes.
        """
        if pointer is None or self._publisher.nearby:
            return
        pause = self._publisher.put_seconds * (1 + size / PARALLEL_SMALL_REQUESTS)
        ids = [self._chain.named_by(pointer), *([member] if member else [])]
        for _ in range(GROUP_LOOKS):
            if self._runtime.each_small(self._chain.manifest, ids)[0] is not None:
                return
            self._runtime.sleep(pause * (0.75 + self._runtime.random() / 2))
            pause += max(self._publisher.put_seconds, pause / 2)

    def settle_after_grace(
        self, pointer: bytes | None = None, may_owe: Callable[[EncodedManifest[M]], bool] | None = None
    ) -> Head[M]:
        """Settle, but first give a writer outside this protocol time to publish its snapshot."""
        head = self.settle(pointer, may_owe)
        while head.dangles and head.pointer != self._waited_for and self._wait_for(head.pointer):
            self._waited_for = head.pointer
            head = self.settle()
        return self._finish_for_go(head)

    def _finish_for_go(self, head: Head[M]) -> Head[M]:
        """Where Go may work, end the commit of a Go writer that is dead or late, as an empty snapshot.

        Go puts its manifest only if there is none. So either Go's is there first, or Go's write fails, and
        what Go has acknowledged is in history.
        """
        parent, pointer = head.parent, head.pointer
        if not head.dangles or parent is None or pointer is None or not is_shared(parent.sequence, parent.x):
            return head
        snapshot_id = self._chain.named_by(pointer)
        if not is_of_go(snapshot_id):
            return head
        empty = empty_after(parent, snapshot_id, moment_after(parent.created_at, self._runtime.now_ns))
        if self._publisher.create(self._chain.paths.manifest(snapshot_id), encode_manifest(empty)):
            return head_at(pointer, empty)
        return self.settle()

    def has_changed(self, head: Head[M]) -> bool:
        """Whether the pointer of this head dangled, and has been published or moved since."""
        return head.dangles and not self._is_unpublished(head.pointer)

    def _wait_for(self, pointer: bytes | None) -> bool:
        """Wait until this pointer is published, moves, or its grace period ends. False if that has ended."""
        try:
            modified = self._chain.store.head(self._chain.paths.pointer).modified
        except NotFoundError:
            return True
        age = self._runtime.now_ns() / 1e9 - modified.timestamp()
        left = GRACE_SECONDS - max(age, 0.0)
        if left <= 0:
            return False
        pause = FIRST_GRACE_PAUSE_SECONDS
        while left > 0:
            pause = min(pause, left)
            self._runtime.sleep(pause)
            left -= pause
            pause *= 4
            if not self._is_unpublished(pointer):
                break
        return True

    def _is_unpublished(self, pointer: bytes | None) -> bool:
        """Whether the pointer still has this content and names no manifest."""
        found = self._chain.pointer()
        if found is None or found != pointer:
            return False
        return self._chain.manifest(found.decode("utf-8", "replace")) is None


def empty_after(parent: M, snapshot_id: str, created_at: str) -> M:
    """The manifest of a snapshot that adds nothing, as Go would write it: no sequence, no extension."""
    fields: dict[str, Any] = {
        "snapshot_id": snapshot_id,
        "parent_snapshot_id": parent.snapshot_id,
        "created_at": created_at,
        "metadata": {"unfinished": "the Go writer of this snapshot put no manifest in time"},
        "sequence": None,
        "x": None,
    }
    if isinstance(parent, Manifest):
        fields |= {"files": (), "row_count": 0, "min_timestamp": None, "max_timestamp": None}
    changed: Any = msgspec.structs.replace(parent, **fields)  # type: ignore[type-var]
    found: M = changed
    return found
