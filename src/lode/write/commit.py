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
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import msgspec

from lode.errors import (
    CommitUnknownError,
    CommitUnpublishedError,
    DataError,
    LodeError,
    ManifestInvalidError,
    NotFoundError,
    OutcomeUnknownError,
    PathExistsError,
    SnapshotConflictError,
    StoreError,
    TransactionClosedError,
)
from lode.format.manifest import MAX_MANIFEST_BYTES, decode_struct, encode_manifest
from lode.read.resolve import AnyManifest, Chain, Head, Pending
from lode.read.source import get_bounded
from lode.runtime import ProcessLock, one_by_one
from lode.snapshot import CommitReport
from lode.store.open import is_nearby
from lode.store.protocol import SupportsCompareAndSwap, SupportsLink, SupportsQueue, SupportsVolatilePut
from lode.write.contention import Turns
from lode.write.rebase import common_partition
from lode.write.retry import check_retry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lode.runtime import Runtime
    from lode.write.retry import Retry

logger = logging.getLogger("lode.commit")

# Every lost swap is somebody else's success, so rebasing cannot livelock; the bound only stops a broken
# store from spinning for ever. See docs/design/commit.md for the measurement behind it.
MAX_REBASES: Final = 10_000
# How often a request is sent again while nothing moves on the store.
MAX_UNANSWERED: Final = 4
# How long a writer outside this protocol may take from its swap to its manifest before it counts as dead.
GRACE_SECONDS: Final = 3.0
# The first pause of that wait; each further one is four times as long, so three fill the grace period.
FIRST_GRACE_PAUSE_SECONDS: Final = 0.2

M = TypeVar("M", bound=AnyManifest)


class Swap(Enum):
    """What became of one swap of the pointer."""

    WON = auto()
    LOST = auto()
    # The answer never came: it may have taken effect, or may do so later.
    UNKNOWN = auto()


@dataclass(slots=True)
class Draft(ABC, Generic[M]):
    """A snapshot that has its files but not yet its place in history.

    ``base`` is the head it expects to follow, None until one is captured, and after a conflict the head it
    lost to; ``declared`` is its intent as it is on the store. So a draft that conflicted can be committed
    again as it is.
    """

    snapshot_id: str
    base: Head[M] | None = None
    idempotency: tuple[str, str] | None = None
    declared: Pending[M] | None = None
    # Name of the writer, recorded in the manifest.
    writer: str | None = None
    # Whether it may follow snapshots that came first and touch nothing of it, and how often it has.
    rebase: bool = True
    rebases: int = 0
    # Whether it may follow any snapshot, also one that touches the same data.
    append: bool = False
    # Whether nobody can have committed under this id. False for an id that the caller chose, until checked.
    fresh: bool = True
    # The head that was known when the idempotency key was looked up last.
    asked: Head[M] | None = None
    # Whether a swap of this draft has taken effect; None while that is open.
    landed: bool | None = False

    def origin(self) -> dict[str, Any]:
        """The part of its manifest's extension that describes this commit."""
        found: dict[str, Any] = {}
        if self.idempotency is not None:
            found["idempotency"] = {"writer": self.idempotency[0], "key": self.idempotency[1]}
        if self.writer is not None:
            found["writer"] = self.writer
        if self.rebases:
            found["rebases"] = self.rebases
        if self.base is not None and self.base.pointer != _pointer_to(self.base.id):
            # A dangling or lost pointer: sweep must know what the swap of this intent expects.
            found["expected"] = (self.base.pointer or b"").decode("utf-8", "replace")
        return found

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
    # How often a swap did not win and the pointer had not moved.
    unmoved: int = 0
    rivals: int = 0
    # The base that the intent on the store names.
    declared_on: object = None


class KeyRecord(msgspec.Struct, frozen=True):
    """The content of an idempotency key's object."""

    writer: str
    key: str
    snapshot_id: str


class Committer(Generic[M]):
    """Places drafts at the end of one history. Threads that share one queue up, so they never conflict."""

    def __init__(
        self,
        chain: Chain[M],
        runtime: Runtime,
        retry: Retry | None,
        observer: Callable[[str, CommitReport], None] | None = None,
        afterwards: Callable[[M], None] | None = None,
    ) -> None:
        self._chain = chain
        self._store = chain.store
        # The last snapshot whose manifest this process knows to be on the disk.
        self._synced: str | None = None
        self._runtime = runtime
        self._retry = check_retry(retry)
        self._observer = observer
        self._afterwards = afterwards
        # The head this process knows: its last commit, the head a commit lost to, or its first look.
        self._head: Head[M] | None = None
        # The last foreign pointer that was given its grace period.
        self._waited_for: bytes | None = None
        self._lock = ProcessLock()

    # What the store can do is asked by the first commit: a process that only reads is spared the question.

    @cached_property
    def _swapping(self) -> SupportsCompareAndSwap | None:
        return self._store if isinstance(self._store, SupportsCompareAndSwap) else None

    @cached_property
    def _linking(self) -> SupportsLink | None:
        return self._store if isinstance(self._store, SupportsLink) else None

    @cached_property
    def _syncing(self) -> SupportsVolatilePut | None:
        return self._store if isinstance(self._store, SupportsVolatilePut) else None

    @cached_property
    def _nearby(self) -> bool:
        return is_nearby(self._store)

    @cached_property
    def _turns(self) -> Turns:
        queue = None
        if isinstance(self._store, SupportsQueue):
            queue = partial(self._store.queue, self._chain.paths.pointer)
        return Turns(self._runtime, nearby=self._nearby, queue=queue)

    @property
    def has_head(self) -> bool:
        """Whether this process knows a published snapshot to start from."""
        return self._head is not None and self._head.manifest is not None

    def start_from(self, head: Head[M]) -> None:
        """Take a head that was just read as the first look of this process."""
        if self._head is None and head.pending is None and not _dangles(head):
            self._head = head

    def begin(self, draft: Draft[M]) -> M | None:
        """Return what is committed under the draft's key; saves an upload that would be in vain.

        Raises:
            TransactionClosedError: a snapshot is committed under the id that the caller chose.
        """
        draft.asked = draft.base or self._head or self.capture()
        found = self.find_key(draft.idempotency) if draft.idempotency else None
        if found is None and not draft.fresh and self._chain.manifest(draft.snapshot_id) is not None:
            raise self._used(draft.snapshot_id)
        return found

    def capture(self) -> Head[M]:
        """Return the head that a commit made now would expect; no store call unless this process is cold."""
        with self._lock:
            return self._capture()

    def _capture(self) -> Head[M]:
        head = self._head
        if head is None or self._was_published(head):
            head = self._look()
        elif head.pending is not None:
            # Our last commit, which we could not publish. Nobody builds on a snapshot without manifest.
            if self._chain.manifest(head.pending.manifest.snapshot_id) is None:
                self._publish(head.pending)
            head = Head(head.pointer, head.pending.manifest)
        self._head = head
        return head

    def settle(self) -> Head[M]:
        """Read the head and, if its writer left it unpublished, publish it."""
        head = self._chain.resolve()
        if head.pending is not None:
            self._publish(head.pending)
            head = Head(head.pointer, head.pending.manifest)
        return head

    def _look(self) -> Head[M]:
        """Settle, but give a writer outside this protocol time to publish its snapshot."""
        head = self.settle()
        while _dangles(head) and head.pointer != self._waited_for and self._wait_for(head.pointer):
            self._waited_for = head.pointer
            head = self.settle()
        return head

    def _wait_for(self, pointer: bytes | None) -> bool:
        """Wait until this pointer is published or moves, or its grace period ends; False if it has ended."""
        try:
            modified = self._store.head(self._chain.paths.pointer).modified
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

    def _was_published(self, head: Head[M]) -> bool:
        """Whether the writer of a pointer that dangled has published since, or the pointer has moved."""
        return _dangles(head) and not self._is_unpublished(head.pointer)

    def _is_unpublished(self, pointer: bytes | None) -> bool:
        """Whether the pointer still has this content and no manifest belongs to it."""
        found = self._chain.pointer()
        if found is None or found != pointer:
            return False
        return self._chain.manifest(found.decode("utf-8", "replace")) is None

    def find_key(self, idempotency: tuple[str, str]) -> M | None:
        """Return the snapshot committed under this key, if the head this process knows contains it.

        Ask after the head is known: a key is published before anybody can build on its snapshot, so what
        the head contains is found here and what came later is met when the swap is lost.
        """
        path = self._chain.paths.key(*idempotency)
        try:
            record = get_bounded(self._store, path, MAX_MANIFEST_BYTES)
        except NotFoundError:
            return None
        known = decode_struct(record, KeyRecord, origin=path)
        if self._chain.manifest(known.snapshot_id) is None:
            self.settle()  # its writer died between the key and the manifest
        found = self._chain.manifest(known.snapshot_id)
        # The manifest decides what was committed under which key: a damaged key must not pass off a write as
        # done that is not.
        if found is None or found.idempotency != idempotency:
            raise ManifestInvalidError(
                f"{path} names snapshot {known.snapshot_id!r}, which was not committed under this key: write "
                "the object again, or remove it if lode log shows no snapshot with the key "
                "(docs/guides/recovering.md#a-damaged-key)"
            )
        self._sync(found.snapshot_id)
        return found

    def commit(self, draft: Draft[M]) -> Committed[M]:
        """Place ``draft`` after its base, or after what came since if that touches nothing of it.

        Without a base it expects the head this process knows now.

        Raises:
            SnapshotConflictError: it does touch something, and no retry is left.
            CommitUnknownError: the store stopped answering at the swap.
            CommitUnpublishedError: the store stopped answering between swap and publication.
        """
        tally = _Tally(self._runtime.monotonic())
        captures = draft.base is None
        try:
            with self._lock, self._turns.in_line() as crowded:
                manifest = self._place(draft, tally, crowded=crowded)
        except SnapshotConflictError:
            raise
        except LodeError:
            if captures and draft.landed is False:
                draft.base = None  # the next try is another commit, and captures for itself
            raise
        return self._report(manifest, tally, replayed=manifest.snapshot_id != draft.snapshot_id)

    def declare(self, placed: Pending[M]) -> None:
        """Put the intent of a snapshot of a copy, whose id and content are decided, once its files are there.

        Whoever copies the snapshot puts the same intent, so one that is there already is as good. From then
        on no sweep can remove its files.

        Raises:
            TransactionClosedError: a sweep has fenced the id.
        """
        snapshot_id = placed.manifest.snapshot_id
        path = self._chain.paths.intent(snapshot_id)
        if not self._create(path, placed.data) and self._store.get(path).strip() != placed.data.strip():
            raise TransactionClosedError(
                f"{self._chain.name}: snapshot {snapshot_id} was swept as abandoned before it was committed, "
                f"so its id cannot be used: remove {path} when no sweep is running, then copy again, or copy "
                "under another name"
            )

    def claim(self, placed: Pending[M], expected: bytes | None) -> bool:
        """Declare a snapshot of a copy and move the pointer to it; ``publish`` comes next.

        Args:
            placed: The snapshot.
            expected: The pointer that it replaces; None if there must be none.

        Returns:
            Whether the pointer names this snapshot now; False if somebody else has moved it.

        Raises:
            TransactionClosedError: a sweep has fenced the id.
        """
        snapshot_id = placed.manifest.snapshot_id
        self._sync(placed.manifest.parent_snapshot_id if expected is not None else None)
        self.declare(placed)
        for _ in range(MAX_UNANSWERED):
            if self._swap(expected, snapshot_id) is Swap.WON:
                return True
            pointer = self._chain.pointer()
            if pointer != expected:
                return pointer == snapshot_id.encode()
        raise StoreError(
            f"{self._chain.paths.pointer} has the expected content and the store does not replace it; "
            f"{snapshot_id} did not land"
        )

    def publish(self, placed: Pending[M]) -> None:
        """Show a snapshot that was claimed, or that comes before one that was."""
        self._publish(placed)

    def _place(self, draft: Draft[M], tally: _Tally, *, crowded: bool) -> M:
        # In a crowd the head this process knows is certainly stale: look before the first try. A draft that
        # is tried again has just met the head that it lost to.
        behind = crowded and draft.declared is None
        known = self._head
        if draft.base is None:
            draft.base = self._capture()
        elif known is None or known.pointer != draft.base.pointer or self._was_published(draft.base):
            behind = True
        if draft.idempotency is not None and draft.asked is not draft.base:
            # Another thread may have committed the key since it was looked up.
            found = self.find_key(draft.idempotency)
            if found is not None:
                return found
            draft.asked = draft.base
        while behind or not self._attempt(draft, tally):
            if not behind:
                tally.attempts += 1
                self._turns.step_back(tally.attempts)
            settled = self._catch_up(draft, tally, lost=not behind)
            if settled is not None:
                return settled
            behind = False
        tally.attempts += 1
        placed = draft.declared
        assert placed is not None, "an attempt declares its draft"
        pointer = draft.snapshot_id.encode()
        self._head = Head(pointer, draft.base.manifest, pending=placed)
        try:
            self._publish(placed)
        except StoreError as error:
            raise CommitUnpublishedError(
                f"{self._chain.name}: snapshot {draft.snapshot_id} is committed but its manifest could not "
                f"be written ({error}); do not write it again, the next commit publishes it",
                snapshot_id=draft.snapshot_id,
            ) from error
        self._head = Head(pointer, placed.manifest)
        self._turns.done(tally.rivals)
        return placed.manifest

    def _attempt(self, draft: Draft[M], tally: _Tally) -> bool:
        """Declare the draft as the child of its base, unless that is done, and swap."""
        base = draft.base
        assert base is not None, "a draft has a base before it is tried"
        if tally.declared_on is not base:
            self._declare(draft, base)
            tally.declared_on = base
        try:
            outcome = self._swap(base.pointer, draft.snapshot_id)
        except StoreError as error:
            raise self._undecided(draft, error) from error
        if outcome is Swap.WON:
            draft.landed = True
        elif outcome is Swap.UNKNOWN:
            draft.landed = None
        return outcome is Swap.WON

    def _catch_up(self, draft: Draft[M], tally: _Tally, *, lost: bool) -> M | None:
        """Move the draft onto what was committed since its base, or return the commit that it is."""
        base = draft.base
        assert base is not None, "a draft has a base before it is tried"
        head = self._look_again(draft)
        # With the same pointer and another head, a foreign writer has published what dangled: a rival,
        # unless our own swap may still land on the intent as it is.
        if head.pointer == base.pointer and (head.id == base.id or draft.landed is None):
            tally.unmoved += lost
            if tally.unmoved == MAX_UNANSWERED:
                stuck = StoreError(
                    f"{self._chain.paths.pointer} has the expected content and the store still refuses to "
                    f"replace it; {draft.snapshot_id} did not land"
                )
                raise self._undecided(draft, stuck)
            return None
        rivals = self._since(draft, base, head)
        settled = self._same_commit(draft, rivals)
        overlap = None if settled is not None else self._overlap(draft, rivals)
        if overlap is not None and draft.rebase and tally.retries < self._retry.count:
            self._runtime.sleep(self._retry.delay(tally.retries, self._runtime.random()))
            tally.retries += 1
            head = self._look_again(draft)
            rivals = self._since(draft, base, head)
            settled = self._same_commit(draft, rivals)
            overlap = None
        tally.rivals += len(rivals)
        self._turns.met(tally.rivals)
        self._head = head
        if settled is not None:
            return settled
        draft.base = draft.asked = head
        if overlap is not None or tally.rebases == MAX_REBASES:
            raise SnapshotConflictError(self._conflict(draft, base, overlap, tally.rebases))
        tally.rebases += 1
        draft.rebases += 1
        return None

    def _declare(self, draft: Draft[M], base: Head[M]) -> None:
        """Put the intent, or replace the one put for an earlier base."""
        self._sync(base.id)
        sequence = self._chain.sequence_of(base.manifest) + 1
        manifest = draft.place_on(base.manifest, sequence)
        placed = Pending(manifest, encode_manifest(manifest))
        path = self._chain.paths.intent(draft.snapshot_id)
        if draft.declared is None:
            try:
                # Until the swap nobody refers to it, and after it the manifest is put, synced. Should a power
                # cut take it in between, the head is found through the parent links of the manifests.
                (self._syncing.put_volatile if self._syncing else self._store.put)(path, placed.data)
            except PathExistsError:
                raise self._swept(draft.snapshot_id) from None
        else:
            self._replace(draft.snapshot_id, draft.declared.data, placed.data)
        draft.declared = placed
        if not draft.fresh:
            self._check_unused(draft.snapshot_id)
            draft.fresh = True

    def _check_unused(self, snapshot_id: str) -> None:
        """Refuse an id that is committed, once our intent is there.

        Sweep removes an intent only when its manifest is published. So if an earlier commit of this id had
        one, we either met it when we put ours, or find the manifest now.
        """
        if self._store.exists(self._chain.paths.manifest(snapshot_id)):
            with suppress(StoreError):
                self._store.delete(self._chain.paths.intent(snapshot_id))
            raise self._used(snapshot_id)

    def _replace(self, snapshot_id: str, earlier: bytes, data: bytes) -> None:
        """Replace our intent, conditionally: an overtaken request must not undo this when it lands late."""
        path = self._chain.paths.intent(snapshot_id)
        if self._swapping is None:
            self._store.delete(path)
            self._store.put(path, data)
            return
        for _ in range(MAX_UNANSWERED):
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

    def _used(self, snapshot_id: str) -> TransactionClosedError:
        return TransactionClosedError(
            f"{self._chain.name}: snapshot {snapshot_id} is committed already and an id is used once: choose "
            "another snapshot_id, or leave it out"
        )

    def _swap(self, expected: bytes | None, snapshot_id: str) -> Swap:
        """Move the pointer."""
        pointer = self._chain.paths.pointer
        try:
            if self._swapping is not None:
                swapped = self._swapping.compare_and_swap(pointer, expected, snapshot_id.encode())
                return Swap.WON if swapped else Swap.LOST
            # A store without compare-and-swap has one writer at a time, and that is its users' promise.
            if self._chain.pointer() != expected:
                return Swap.LOST
            self._store.delete(pointer)
            self._store.put(pointer, snapshot_id.encode())
        except OutcomeUnknownError:
            return Swap.UNKNOWN
        return Swap.WON

    def _publish(self, placed: Pending[M]) -> None:
        """Show a snapshot whose place is decided; others may be doing the same."""
        each = one_by_one if self._nearby else self._runtime.each
        each(lambda copy: self._copy(placed, copy), self._chain.copies(placed.manifest))
        snapshot_id = placed.manifest.snapshot_id
        if placed.manifest.idempotency is not None:
            writer, key = placed.manifest.idempotency
            record = msgspec.json.encode(KeyRecord(writer, key, snapshot_id))
            self._create(self._chain.paths.key(writer, key), record)
        if not self._create(self._chain.paths.manifest(snapshot_id), placed.data):
            self._check_published(placed)
        self._chain.remember(snapshot_id, placed.data)
        self._synced = snapshot_id

    def _sync(self, snapshot_id: str | None) -> None:
        """Bring a manifest that another process put to the disk, before anything is built on it.

        Its writer may be about to do the same. A power cut in between would take the parent of what this
        process acknowledges.
        """
        if self._syncing is not None and snapshot_id not in (None, self._synced):
            self._syncing.sync(self._chain.paths.manifest(snapshot_id or ""))
            self._synced = snapshot_id

    def _check_published(self, placed: Pending[M]) -> None:
        """Make sure that the manifest somebody put before us is the one that was declared."""
        path = self._chain.paths.manifest(placed.manifest.snapshot_id)
        if self._store.get(path).strip() != placed.data.strip():
            raise DataError(
                f"{path} is another manifest than the one its intent declares: two snapshots were committed "
                "under one id, or the manifest is damaged; compare it with the intent beside it"
            )

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

    def _create(self, path: str, data: bytes) -> bool:
        """Put the object; False if there is one: by another publisher, or by a try whose answer was lost."""
        for remaining in reversed(range(MAX_UNANSWERED)):
            try:
                self._store.put(path, data)
                return True
            except PathExistsError:
                return False
            except OutcomeUnknownError:
                if not remaining:
                    raise
        return False

    # After a swap whose answer was lost, an error while looking leaves it open whether the swap landed: its
    # files may be part of history. After a swap that was definitely lost, it is the store's own error.

    def _look_again(self, draft: Draft[M]) -> Head[M]:
        try:
            return self._look()
        except LodeError as error:
            raise self._undecided(draft, error) from error

    def _since(self, draft: Draft[M], base: Head[M], head: Head[M]) -> list[Rival]:
        """What was committed after the base, newest first."""
        rivals: list[Rival] = []
        try:
            for rival in self._back(draft, head.manifest):
                if rival.snapshot_id == base.id:
                    return rivals
                rivals.append(rival)
        except LodeError as error:
            raise self._undecided(draft, error) from error
        if base.id is None:
            return rivals
        draft.landed = False
        self._head = head
        raise SnapshotConflictError(
            f"{self._chain.name}: its history does not contain {base.id}, on which this write is based; "
            "it did not land. Was the dataset replaced?"
        )

    def _undecided(self, draft: Draft[M], error: LodeError) -> LodeError:
        """The error to raise when the store fails: itself, unless a swap before may have taken effect."""
        if draft.landed is False:
            return error
        return CommitUnknownError(
            f"{self._chain.name}: the store stopped answering while {draft.snapshot_id} was committed, "
            "so it may or may not have landed; look for it in the history before writing it again",
            snapshot_id=draft.snapshot_id,
        )

    def _back(self, draft: Draft[M], manifest: M | None) -> Iterator[Rival]:
        """Walk back to the root; one read for as many snapshots as a manifest recalls."""
        seen: set[str] = set()
        yielded = 0
        while manifest is not None:
            if manifest.snapshot_id in seen:
                raise self._chain.damaged(
                    manifest.snapshot_id, "is its own ancestor: the parents form a cycle"
                )
            seen.add(manifest.snapshot_id)
            rivals = list(draft.rivals_in(manifest))
            yield from rivals[yielded:]
            # The last one recalled has been yielded, and recalls what came before it.
            yielded = int(len(rivals) > 1)
            before = rivals[-1].snapshot_id if yielded else manifest.parent_snapshot_id
            manifest = self._chain.require(before) if before else None

    def _same_commit(self, draft: Draft[M], rivals: list[Rival]) -> M | None:
        """The rival that is this very commit: ours, seen to have won after all, or one under the same key.

        A snapshot that somebody has built on has published its key, so one read tells.
        """
        if any(rival.snapshot_id == draft.snapshot_id for rival in rivals):
            if draft.declared is None or not draft.fresh:
                raise self._used(draft.snapshot_id)
            draft.landed = True
            return draft.declared.manifest
        # The pointer has left the value that our swaps expected and never returns to it: none can win now.
        draft.landed = False
        if draft.idempotency is None or not rivals:
            return None
        return self.find_key(draft.idempotency)

    def _overlap(self, draft: Draft[M], rivals: list[Rival]) -> str | None:
        """What a rival touched of ours. The whole chain counts, not only its head."""
        if rivals and not draft.rebase:
            return f"snapshot {rivals[0].snapshot_id} was committed"
        if draft.append:
            return None
        ours = draft.touched()
        # Nearly all commits touch nothing of each other: one look at all of them.
        if common_partition(ours, frozenset().union(*(rival.partitions for rival in rivals))) is None:
            return None
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

    def _conflict(self, draft: Draft[M], base: Head[M], overlap: str | None, rebases: int) -> str:
        reason = overlap or f"other writers were faster {rebases} times"
        after = f"after {base.id} " if base.id else ""
        return (
            f"{self._chain.name}: {after}{reason}, so {draft.snapshot_id} did not land; read what came "
            'first and commit error.transaction again, or write with on_conflict="append" to follow anybody'
        )


def _pointer_to(snapshot_id: str | None) -> bytes | None:
    return snapshot_id.encode() if snapshot_id else None


def _dangles(head: Head[Any]) -> bool:
    """Whether the pointer names a snapshot that has neither a manifest nor an intent."""
    return head.pending is None and head.pointer is not None and head.pointer != _pointer_to(head.id)
