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
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

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
from lode.store.protocol import SupportsCompareAndSwap, SupportsLink, SupportsQueue, SupportsVolatilePut
from lode.write.rebase import common_partition
from lode.write.turns import Turns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lode.runtime import Runtime
    from lode.write.retry import Retry

logger = logging.getLogger("lode.commit")

# Every lost swap is somebody else's success, so rebasing cannot livelock; the bound only stops a broken
# store from spinning for ever. See docs/design/commit.md for the measurement behind it.
MOST_REBASES = 10_000
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
    # Who commits it, for whoever looks at the history later.
    writer: str | None = None
    # Whether it may follow what came first and touches nothing of it, and how often it has.
    rebase: bool = True
    rebases: int = 0

    def origin(self) -> dict[str, Any]:
        """What its manifest's extension tells about this commit."""
        told: dict[str, Any] = {}
        if self.idempotency is not None:
            told["idempotency"] = {"writer": self.idempotency[0], "key": self.idempotency[1]}
        if self.writer is not None:
            told["writer"] = self.writer
        if self.rebases:
            told["rebases"] = self.rebases
        return told

    @abstractmethod
    def place_on(self, parent: M | None, sequence: int) -> M:
        """Return the manifest this draft has as the child of ``parent``."""

    @abstractmethod
    def rivals_in(self, manifest: M) -> Iterator[Rival]:
        """The snapshot itself and those before it that its manifest recalls, newest first."""

    @abstractmethod
    def touched(self) -> frozenset[str]:
        """The partitions this draft writes to, as ``Rival`` has those of others."""


@dataclass(frozen=True, slots=True)
class Rival:
    """A snapshot that came first: all of it that a writer must know to follow it."""

    snapshot_id: str
    partitions: frozenset[str] = frozenset()


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


@dataclass(slots=True)
class _Tally:
    """What one call of ``commit`` has met so far."""

    began: float
    attempts: int = 0
    rebases: int = 0
    retries: int = 0
    unanswered: int = 0
    rivals: int = 0
    # The base that the intent on the store names.
    declared_on: object = None


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
        self._linking = chain.store if isinstance(chain.store, SupportsLink) else None
        self._runtime = runtime
        self._nearby = is_nearby(chain.store)
        self._retry = retry
        self._observer = observer
        self._afterwards = afterwards
        queue = None
        if isinstance(chain.store, SupportsQueue):
            queue = partial(chain.store.queue, chain.paths.pointer)
        self._turns = Turns(runtime, nearby=self._nearby, queue=queue)
        self._head: Head[M] | None = None

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
        tally = _Tally(self._runtime.monotonic())
        with self._turns.in_line() as crowded:
            # In a crowd the head this process knows is surely gone: look before the first try. Who tries a
            # draft again has just seen the head that it lost to.
            return self._commit(draft, tally, behind=crowded and draft.declared is None)

    def _commit(self, draft: Draft[M], tally: _Tally, *, behind: bool) -> Committed[M]:
        while behind or not self._attempt(draft, tally):
            if not behind:
                tally.attempts += 1
                self._turns.step_back(tally.attempts)
            settled = self._catch_up(draft, tally, lost=not behind)
            if settled is not None:
                return self._report(settled, tally, replayed=settled.snapshot_id != draft.snapshot_id)
            behind = False
        tally.attempts += 1
        placed = draft.declared
        assert placed is not None, "an attempt declares its draft"
        try:
            self._publish(placed)
        except StoreError as error:
            raise CommitUnpublishedError(
                f"{self._chain.name}: snapshot {draft.snapshot_id} is committed but its manifest could not "
                f"be written ({error}); do not write it again, the next commit publishes it"
            ) from error
        self._head = Head(draft.snapshot_id.encode(), placed.manifest)
        self._turns.done(tally.rivals)
        return self._report(placed.manifest, tally)

    def _attempt(self, draft: Draft[M], tally: _Tally) -> bool:
        """Declare the draft as the child of its base, unless that is done, and swap."""
        if tally.declared_on is not draft.base:
            self._declare(draft)
            tally.declared_on = draft.base
        try:
            return self._swap(draft.base.pointer, draft.snapshot_id)
        except StoreError as error:
            # A failure is only a failure as long as no swap before it may still take effect.
            if not tally.unanswered:
                raise
            raise CommitUnknownError(self._unknown(draft)) from error

    def _catch_up(self, draft: Draft[M], tally: _Tally, *, lost: bool) -> M | None:
        """Move the draft behind what was committed since its base, or return the commit that it is."""
        head = self._look_again(draft)
        if head.pointer == draft.base.pointer:
            tally.unanswered += lost
            if tally.unanswered == MOST_UNANSWERED:
                raise CommitUnknownError(self._unknown(draft))
            return None
        rivals = self._since(draft, head)
        settled = self._same_commit(draft, rivals)
        overlap = None if settled is not None else self._overlap(draft, rivals)
        if overlap is not None and draft.rebase and tally.retries < self._retry.count:
            self._runtime.sleep(self._retry.delay(tally.retries, self._runtime.random()))
            tally.retries += 1
            head = self._look_again(draft)
            rivals = self._since(draft, head)
            settled = self._same_commit(draft, rivals)
            overlap = None
        tally.rivals += len(rivals)
        self._turns.met(tally.rivals)
        if settled is not None:
            return settled
        draft.base = head
        if overlap is not None or tally.rebases == MOST_REBASES:
            raise SnapshotConflictError(self._conflict(draft, overlap, tally.rebases))
        tally.rebases += 1
        draft.rebases += 1
        return None

    def _declare(self, draft: Draft[M]) -> None:
        """Put the intent, or replace the one put for an earlier base."""
        sequence = self._chain.sequence_of(draft.base.manifest) + 1
        manifest = draft.place_on(draft.base.manifest, sequence)
        placed = Pending(manifest, encode_manifest(manifest))
        path = self._chain.paths.intent(draft.snapshot_id)
        if draft.declared is None:
            try:
                # Until the swap nobody refers to it, and after it the manifest is put, synced. Should a power
                # cut take it in between, the head is found through the parent links of the manifests.
                volatile = self._store if isinstance(self._store, SupportsVolatilePut) else None
                (volatile.put_volatile if volatile else self._store.put)(path, placed.data)
            except PathExistsError:
                raise self._swept(draft.snapshot_id) from None
        else:
            self._replace(draft.snapshot_id, draft.declared.data, placed.data)
        draft.declared = placed

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
        each(lambda copy: self._copy(placed, copy), self._chain.copies(placed.manifest))
        snapshot_id = placed.manifest.snapshot_id
        if placed.manifest.idempotency is not None:
            writer, key = placed.manifest.idempotency
            record = msgspec.json.encode(KeyRecord(writer, key, snapshot_id))
            self._create(self._chain.paths.key(writer, key), record)
        self._create(self._chain.paths.manifest(snapshot_id), placed.data)
        self._chain.remember(snapshot_id, placed.data)

    def _copy(self, placed: Pending[M], path: str) -> None:
        """Repeat the manifest there. An intent in force never changes, so where it can, it lends its bytes.

        The manifest itself is never a link: should one of the two be damaged, the other is there to mend it.
        """
        if self._linking is not None:
            try:
                self._linking.link(self._chain.paths.intent(placed.manifest.snapshot_id), path)
                return
            except PathExistsError:
                return
            except (StoreError, NotFoundError):
                logger.debug("%s: no link to an intent at %s", self._chain.name, path)
        self._create(path, placed.data)

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

    # Behind a swap whose answer was lost, whatever keeps us from looking leaves it open whether it landed:
    # its files may be part of history, and who took this for a failure would remove them.

    def _look_again(self, draft: Draft[M]) -> Head[M]:
        try:
            return self.settle()
        except LodeError as error:
            raise CommitUnknownError(self._unknown(draft)) from error

    def _since(self, draft: Draft[M], head: Head[M]) -> list[Rival]:
        """What was committed behind the draft's base, newest first."""
        base = draft.base
        rivals: list[Rival] = []
        try:
            for rival in self._back(draft, head.manifest):
                if rival.snapshot_id == base.id:
                    return rivals
                rivals.append(rival)
        except LodeError as error:
            raise CommitUnknownError(self._unknown(draft)) from error
        if base.id is None:
            return rivals
        raise SnapshotConflictError(
            f"{self._chain.name}: its history no longer contains {base.id}, on which this write was based; "
            "it did not land. Was the dataset replaced?"
        )

    def _back(self, draft: Draft[M], manifest: M | None) -> Iterator[Rival]:
        """Walk back to the root; one read for as many snapshots as a manifest recalls."""
        told = 0
        while manifest is not None:
            rivals = list(draft.rivals_in(manifest))
            yield from rivals[told:]
            # The last one recalled has been told, and recalls what came before it.
            told = int(len(rivals) > 1)
            before = rivals[-1].snapshot_id if told else manifest.parent_snapshot_id
            manifest = self._chain.require(before) if before else None

    def _same_commit(self, draft: Draft[M], rivals: list[Rival]) -> M | None:
        """The rival that is this very commit: ours, seen to have won after all, or one under the same key.

        Who has been built upon has published its key, so one read tells.
        """
        if any(rival.snapshot_id == draft.snapshot_id for rival in rivals):
            return self._chain.require(draft.snapshot_id)
        if draft.idempotency is None or not rivals:
            return None
        return self.find_key(draft.idempotency)

    def _overlap(self, draft: Draft[M], rivals: list[Rival]) -> str | None:
        """What a rival touched of ours. The whole chain counts, not only its head."""
        if rivals and not draft.rebase:
            return f"snapshot {rivals[0].snapshot_id} was committed"
        ours = draft.touched()
        for rival in rivals:
            common = common_partition(ours, rival.partitions)
            if common is not None:
                return f"snapshot {rival.snapshot_id} also wrote {common}"
        return None

    def _report(self, manifest: M, tally: _Tally, *, replayed: bool = False) -> Committed[M]:
        seconds = self._runtime.monotonic() - tally.began
        report = CommitReport(tally.attempts, tally.rebases, tally.retries, seconds, replayed)
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
