"""The commit: intent, swap, publish. The only place that moves a pointer.

    intent   put the complete manifest, parent included, beside where it will be published
    swap     compare-and-swap the pointer from the parent to this snapshot; this decides the order
    publish  put the partition copies, the idempotency key and, as the commit signal, the manifest

Whoever finds the pointer at an unpublished snapshot can finish it from its intent, so a writer that
died between swap and publish blocks nobody. A pointer value is never used twice, so a late request
from the past can never succeed, and an intent is only ever replaced conditionally, so a late one
cannot bring back an old parent. ``docs/design/commit.md`` argues why this cannot fork.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec

from lode.errors import (
    CommitUnknownError,
    CommitUnpublishedError,
    LodeError,
    NotFoundError,
    OutcomeUnknownError,
    PathExistsError,
    SnapshotConflictError,
    StoreError,
    TransactionClosedError,
)
from lode.format.manifest import encode_manifest
from lode.read.resolve import AnyManifest, Chain, Head, Pending
from lode.runtime import one_by_one
from lode.store.open import is_nearby
from lode.store.protocol import SupportsCompareAndSwap

if TYPE_CHECKING:
    from collections.abc import Callable

    from lode.runtime import Runtime
    from lode.write.retry import Retry

logger = logging.getLogger("lode.commit")

# Every lost swap is somebody else's success, so rebasing cannot livelock; the bound only stops a broken
# store from spinning for ever. See docs/design/commit.md for the measurement behind it.
MOST_REBASES = 10_000
# The longest a commit steps back for others after it lost a swap, in seconds.
LONGEST_PAUSE = 1.0
# A request whose answer is lost this often while nothing moves is given up as unknown.
MOST_UNANSWERED = 4

M = TypeVar("M", bound=AnyManifest)


@dataclass(slots=True)
class Draft(ABC, Generic[M]):
    """A snapshot that has its files but not yet its place in history.

    ``base`` is the head it expects to follow, and after a conflict the head it lost to; ``declared`` is
    its intent as it lies on the store. So a draft that conflicted can be committed again as it is.
    """

    snapshot_id: str
    base: Head[M]
    idempotency: tuple[str, str] | None = None
    declared: Pending[M] | None = None
    # Whether it may follow what came first and touches nothing of it.
    rebase: bool = True

    @abstractmethod
    def place_on(self, parent: M | None, sequence: int) -> M:
        """Return the manifest this draft has as the child of ``parent``."""

    @abstractmethod
    def overlap_with(self, other: M) -> str | None:
        """Say what this draft and a snapshot that came first both touch, or None."""


@dataclass(frozen=True, slots=True)
class CommitReport:
    """What it took to commit one snapshot."""

    attempts: int = 0
    rebases: int = 0
    retries: int = 0
    seconds: float = 0.0
    # True when an earlier commit under the same idempotency key was returned instead.
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class Committed(Generic[M]):
    """A published snapshot and the report of its commit."""

    manifest: M
    report: CommitReport


class KeyRecord(msgspec.Struct, frozen=True):
    """The content of an idempotency key's object."""

    writer: str
    key: str
    snapshot_id: str


class Committer(Generic[M]):
    """Places drafts at the end of one history."""

    def __init__(
        self,
        chain: Chain[M],
        runtime: Runtime,
        retry: Retry,
        observer: Callable[[str, CommitReport], None] | None = None,
        afterwards: Callable[[M], None] | None = None,
    ) -> None:
        self._chain = chain
        self._store = chain.store
        self._swapping = chain.store if isinstance(chain.store, SupportsCompareAndSwap) else None
        self._runtime = runtime
        self._nearby = is_nearby(chain.store)
        self._retry = retry
        self._observer = observer
        self._afterwards = afterwards
        self._head: Head[M] | None = None
        # How many others committed while this process's last attempt was under way.
        self._crowd = 0

    def base(self) -> Head[M]:
        """The head this process knows, which is what its next commit expects; read once, when cold."""
        return self._head or self.settle()

    def see(self, head: Head[M]) -> None:
        """Take note of a head read elsewhere, so that the next commit starts from it."""
        self._head = head if head.pending is None else None

    def settle(self) -> Head[M]:
        """Read the head and, if its writer left it unpublished, publish it."""
        head = self._chain.resolve()
        if head.pending is not None:
            self._publish(head.pending)
            head = Head(head.pointer, head.pending.manifest)
        self._head = head
        return head

    def find_key(self, idempotency: tuple[str, str]) -> M | None:
        """The snapshot committed under this key, if it is part of ``base()``: one read.

        Ask after ``base()``: a key is published before anybody can build on its snapshot, so what the
        base contains is found here and what came later is met when the swap is lost.
        """
        try:
            record = self._store.get(self._chain.paths.key(*idempotency))
        except NotFoundError:
            return None
        snapshot_id = msgspec.json.decode(record, type=KeyRecord).snapshot_id
        if self._chain.manifest(snapshot_id) is None:
            self.settle()  # its writer died between the key and the manifest
        return self._chain.require(snapshot_id)

    def commit(self, draft: Draft[M]) -> Committed[M]:
        """Place ``draft`` behind its base, or behind what came since if that touches nothing of it.

        Raises:
            SnapshotConflictError: it does touch something, and no retry is left.
            CommitUnknownError: the store stopped answering at the swap.
            CommitUnpublishedError: the store stopped answering between swap and publication.
        """
        began = looked = self._runtime.monotonic()
        attempts = rebases = retries = unanswered = 0
        placed = self._declare(draft)

        while not self._try_swap(draft, in_doubt=unanswered > 0):
            attempts += 1
            self._let_others_pass(looked, attempts)
            looked = self._runtime.monotonic()
            head = self._look_again(draft)
            if head.pointer == draft.base.pointer:
                unanswered += 1
                if unanswered == MOST_UNANSWERED:
                    raise CommitUnknownError(self._unknown(draft))
                continue
            rivals = self._since(draft, head)
            self._crowd = len(rivals)
            overlap = self._overlap(draft, rivals)
            if overlap is not None and draft.rebase and retries < self._retry.count:
                self._runtime.sleep(self._retry.delay(retries, self._runtime.random()))
                retries += 1
                head = self._look_again(draft)
                rivals = self._since(draft, head)
                overlap = None
            settled = _same_commit(draft, rivals)
            if settled is not None:
                ours = settled.snapshot_id == draft.snapshot_id
                return self._report(settled, attempts, rebases, retries, began, replayed=not ours)
            draft.base = head
            if overlap is not None or rebases == MOST_REBASES:
                raise SnapshotConflictError(self._conflict(draft, overlap, rebases))
            rebases += 1
            placed = self._declare(draft)

        try:
            self._publish(placed)
        except StoreError as error:
            raise CommitUnpublishedError(
                f"{self._chain.name}: snapshot {draft.snapshot_id} is committed but its manifest could not "
                f"be written ({error}); do not write it again, the next commit publishes it"
            ) from error
        self._head = Head(draft.snapshot_id.encode(), placed.manifest)
        self._crowd //= 2
        return self._report(placed.manifest, attempts + 1, rebases, retries, began)

    def _declare(self, draft: Draft[M]) -> Pending[M]:
        """Put the intent, or replace the one put for an earlier base."""
        sequence = self._chain.sequence_of(draft.base.manifest) + 1
        manifest = draft.place_on(draft.base.manifest, sequence)
        placed = Pending(manifest, encode_manifest(manifest))
        path = self._chain.paths.intent(draft.snapshot_id)
        if draft.declared is None:
            try:
                self._store.put(path, placed.data)
            except PathExistsError:
                raise self._swept(draft.snapshot_id) from None
        else:
            self._replace(draft.snapshot_id, draft.declared.data, placed.data)
        draft.declared = placed
        return placed

    def _replace(self, snapshot_id: str, earlier: bytes, data: bytes) -> None:
        """Replace our intent, conditionally: an overtaken request must not undo this when it lands late."""
        path = self._chain.paths.intent(snapshot_id)
        if self._swapping is None:
            self._store.delete(path)
            self._store.put(path, data)
            return
        for _ in range(MOST_UNANSWERED):
            try:
                if self._swapping.compare_and_swap(path, earlier, data):
                    return
            except OutcomeUnknownError:
                pass
            found = self._store.get(path).strip()
            if found == data.strip():
                return
            if found != earlier.strip():
                raise self._swept(snapshot_id)
        raise StoreError(f"{path} could not be replaced: the store does not answer; nothing was committed")

    def _swept(self, snapshot_id: str) -> TransactionClosedError:
        return TransactionClosedError(
            f"{self._chain.name}: somebody else holds the intent of snapshot {snapshot_id}: it was swept as "
            "abandoned, or is committed elsewhere; it did not land from here, stage it anew"
        )

    def _swap(self, expected: bytes | None, snapshot_id: str) -> bool:
        """Move the pointer. False means lost or not known: the caller looks at history to find out."""
        pointer = self._chain.paths.pointer
        if self._swapping is not None:
            try:
                return self._swapping.compare_and_swap(pointer, expected, snapshot_id.encode())
            except OutcomeUnknownError:
                return False
        # A store without compare-and-swap has one writer at a time, and that is its users' promise.
        if self._chain.pointer() != expected:
            return False
        self._store.delete(pointer)
        self._store.put(pointer, snapshot_id.encode())
        return True

    def _publish(self, placed: Pending[M]) -> None:
        """Show a snapshot whose place is decided; others may be doing the same."""
        each = one_by_one if self._nearby else self._runtime.each
        each(lambda copy: self._create(copy, placed.data), self._chain.copies(placed.manifest))
        snapshot_id = placed.manifest.snapshot_id
        if placed.manifest.idempotency is not None:
            writer, key = placed.manifest.idempotency
            record = msgspec.json.encode(KeyRecord(writer, key, snapshot_id))
            self._create(self._chain.paths.key(writer, key), record)
        self._create(self._chain.paths.manifest(snapshot_id), placed.data)
        self._chain.remember(snapshot_id, placed.data)

    def _create(self, path: str, data: bytes) -> None:
        for remaining in reversed(range(MOST_UNANSWERED)):
            try:
                self._store.put(path, data)
                return
            except PathExistsError:
                return  # somebody published it for us, or we for somebody, or our last try came through
            except OutcomeUnknownError:
                if not remaining:
                    raise

    def _let_others_pass(self, looked: float, attempts: int) -> None:
        """Wait a little in a crowd before trying again, the less the more often this commit has lost.

        When everybody tries at once all but one look in vain, and who has just won is the quickest to win
        again. A random part of the time the others need spreads the attempts out. Where a look costs next
        to nothing there is nothing to spread.
        """
        if self._crowd > 1 and not self._nearby:
            attempt = self._runtime.monotonic() - looked
            pause = self._runtime.random() * self._crowd * attempt / attempts
            self._runtime.sleep(min(pause, LONGEST_PAUSE))

    def _try_swap(self, draft: Draft[M], *, in_doubt: bool) -> bool:
        """Swap; a failure is only a failure as long as no swap before it may still take effect."""
        try:
            return self._swap(draft.base.pointer, draft.snapshot_id)
        except StoreError as error:
            if not in_doubt:
                raise
            raise CommitUnknownError(self._unknown(draft)) from error

    # Behind a swap whose answer was lost, whatever keeps us from looking leaves it open whether it landed:
    # its files may be part of history, and who took this for a failure would remove them.

    def _look_again(self, draft: Draft[M]) -> Head[M]:
        try:
            return self.settle()
        except LodeError as error:
            raise CommitUnknownError(self._unknown(draft)) from error

    def _since(self, draft: Draft[M], head: Head[M]) -> list[M]:
        """What was committed behind the draft's base, newest first."""
        base = draft.base
        rivals: list[M] = []
        try:
            for manifest in self._chain.back(head.manifest):
                if manifest.snapshot_id == base.id:
                    return rivals
                rivals.append(manifest)
        except LodeError as error:
            raise CommitUnknownError(self._unknown(draft)) from error
        if base.id is None:
            return rivals
        raise SnapshotConflictError(
            f"{self._chain.name}: its history no longer contains {base.id}, on which this write was based; "
            "it did not land. Was the dataset replaced?"
        )

    def _overlap(self, draft: Draft[M], rivals: list[M]) -> str | None:
        """What a rival touched of ours. The whole chain counts, not only its head."""
        if _same_commit(draft, rivals) is not None:
            return None
        if rivals and not draft.rebase:
            return f"snapshot {rivals[0].snapshot_id} was committed"
        for rival in rivals:
            common = draft.overlap_with(rival)
            if common is not None:
                return f"snapshot {rival.snapshot_id} also wrote {common}"
        return None

    def _report(
        self, manifest: M, attempts: int, rebases: int, retries: int, began: float, *, replayed: bool = False
    ) -> Committed[M]:
        report = CommitReport(attempts, rebases, retries, self._runtime.monotonic() - began, replayed)
        logger.debug("%s: committed %s: %s", self._chain.name, manifest.snapshot_id, report)
        if self._afterwards is not None and not replayed:
            self._afterwards(manifest)
        if self._observer is not None:
            try:
                self._observer(manifest.snapshot_id, report)
            except Exception:  # the commit stands, whatever its observer thinks of it
                logger.exception("the commit observer of %s failed", self._chain.name)
        return Committed(manifest, report)

    def _unknown(self, draft: Draft[M]) -> str:
        return (
            f"{self._chain.name}: the store stopped answering while {draft.snapshot_id} was committed, "
            "so it may or may not have landed; look for it in the history before writing it again"
        )

    def _conflict(self, draft: Draft[M], overlap: str | None, rebases: int) -> str:
        reason = overlap or f"other writers were faster {rebases} times"
        return (
            f"{self._chain.name}: {reason} since this write began, so {draft.snapshot_id} did not land; "
            "merge if you must and commit error.transaction again, or allow Retry(count)"
        )


def _same_commit(draft: Draft[M], rivals: list[M]) -> M | None:
    """The rival that is this very commit: ours, seen to have won after all, or one under the same key."""
    for rival in rivals:
        if rival.snapshot_id == draft.snapshot_id:
            return rival
        if draft.idempotency is not None and rival.idempotency == draft.idempotency:
            return rival
    return None
