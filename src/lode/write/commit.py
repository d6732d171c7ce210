"""The commit: intent, swap, publish. The only module that moves a pointer.

    intent   put the complete manifest, parent included, beside the path where it will be published
    swap     compare-and-swap the pointer from the parent to this snapshot; this decides the order
    publish  put the partition copies, the idempotency key and, as the commit signal, the manifest

Any process that finds the pointer at an unpublished snapshot can finish it from its intent. So a writer that
dies between swap and publish does not block the others. A pointer value is never used twice, so a delayed
request cannot succeed later. An intent is only replaced conditionally, so a delayed request cannot restore an
old parent. ``docs/design/commit.md`` argues why this cannot fork.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from enum import Enum, auto
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from lode.errors import (
    CommitUnknownError,
    CommitUnpublishedError,
    LodeError,
    ManifestInvalidError,
    NotFoundError,
    OutcomeUnknownError,
    OverlappingBlocksError,
    SnapshotConflictError,
    StoreError,
    TransactionClosedError,
)
from lode.format.manifest import DROP
from lode.format.pointer import closed_pointer, is_shared
from lode.read.history import walk_back
from lode.read.resolve import AnyManifest, Chain, EncodedManifest, Head, Named, head_at
from lode.read.source import get_bounded
from lode.runtime import ProcessLock
from lode.snapshot import CommitReport
from lode.store.protocol import SupportsQueue
from lode.write.contention import LEADER, Contention, crowd_after
from lode.write.draft import Refreshed, dropped
from lode.write.group import Groups
from lode.write.intent import Intents
from lode.write.known import KnownHistory
from lode.write.publish import MAX_KEY_BYTES, MAX_UNANSWERED, Publisher, snapshot_of_key
from lode.write.rebase import commits_after
from lode.write.recovery import HeadRecovery
from lode.write.retry import check_retry
from lode.write.turn import LOSSES_BEFORE_REQUEST, TurnRequests

if TYPE_CHECKING:
    from collections.abc import Callable

    from lode.runtime import Runtime
    from lode.write.draft import CommitSummary, Draft
    from lode.write.retry import Retry

logger = logging.getLogger("lode.commit")

# Every lost swap is the success of another writer, so rebasing cannot livelock. The bound only stops a broken
# store from spinning for ever. docs/design/commit.md has the measurement.
MAX_REBASES: Final = 10_000

# Every fourth look of a member reads the pointer instead of its own manifest.
POINTER_LOOK: Final = 4

M = TypeVar("M", bound=AnyManifest)


def _call(step: Callable[[], Any]) -> Any:
    return step()


class Swap(Enum):
    """The outcome of one swap of the pointer."""

    WON = auto()
    LOST = auto()
    # No answer: the swap may have taken effect, or may do so later.
    UNKNOWN = auto()


@dataclass(frozen=True, slots=True)
class Committed(Generic[M]):
    """A published snapshot and the report of its commit."""

    manifest: M
    report: CommitReport


@dataclass(slots=True)
class _Tally:
    """Counters of one call of ``commit``."""

    began: float
    attempts: int = 0
    rebases: int = 0
    retries: int = 0
    # How often a swap did not win although the pointer had not moved.
    unmoved: int = 0
    # Commits of other writers.
    others: int = 0
    # Seconds spent waiting for a leader or for members.
    waited: float = 0.0
    # A pointer that was read, or is known to have been, since the last look at the head.
    seen: bytes | None = None
    # The base that the intent on the store names.
    declared_on: Any = None


class Committer(Generic[M]):
    """Appends drafts to one history. Threads that share one queue up, so they never conflict."""

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
        self._runtime = runtime
        self._retry = check_retry(retry)
        self._observer = observer
        self._afterwards = afterwards
        self._publisher = Publisher(chain, runtime)
        self._intents = Intents(chain, self._publisher)
        self._recovery = HeadRecovery(chain, runtime, self._publisher)
        self._requests = TurnRequests(chain)
        # The head that a commit expects: the last commit, the head one lost to, or the first one it read.
        self._head: Head[M] | None = None
        # The head that a commit lost to, with its digest.
        self._named: Named | None = None
        # The head that ``latest()`` has read since. The next commit expects it if it is newer.
        self._refreshed: Refreshed[M] | None = None
        # What every head must contain.
        self._known = KnownHistory(chain)
        self._lock = ProcessLock()

    @cached_property
    def _contention(self) -> Contention:
        queue = None
        if isinstance(self._store, SupportsQueue):
            queue = partial(self._store.queue, self._chain.paths.pointer)
        return Contention(self._runtime, nearby=self._publisher.nearby, queue=queue)

    @cached_property
    def _groups(self) -> Groups[M]:
        return Groups(self._chain, self._runtime, self._publisher, self._contention, self._requests)

    # -- the head ------------------------------------------------------------------------------

    @property
    def has_head(self) -> bool:
        """Whether this process knows a published snapshot to start from."""
        return self._head is not None and self._head.manifest is not None

    def start_from(self, head: Head[M]) -> None:
        """Use a head that was just read, unless this process knows one."""
        known = self._known.newest
        is_known = known is None or known.snapshot_id == head.id
        if self._head is None and is_known and head.pending is None and not head.dangles:
            self._head = head

    @property
    def known(self) -> M | None:
        """The newest snapshot that this process knows. Read it before a head that is compared with it."""
        return self._known.newest

    def look(self) -> Head[M]:
        """Read the head for a reader. This does not change what the next commit expects.

        Raises:
            HistoryLostError: The history had snapshots and has none.
        """
        known = self._known.newest
        head = self._chain.resolve()
        self._known.saw(head, known)
        return head

    def saw(self, head: Head[M], known: M | None) -> None:
        """Take in a head that was read to find the history, as ``look`` does."""
        self._known.saw(head, known)

    def refresh(self) -> Head[M]:
        """Read the head, and let the next commit expect its snapshot.

        Commits that have begun keep what they expect.

        Raises:
            HistoryLostError: The head comes before a snapshot that this process knows.
        """
        known = self._known.newest
        head = self.look()
        self._known.check_not_older(head, known)
        self.expect(head, known)
        return head

    def expect(self, head: Head[M], known: M | None = None) -> None:
        """Let the next commit expect the newest snapshot of a head that the caller has just read."""
        if head.manifest is not None:
            # A snapshot that was committed and is not visible yet comes after what the caller has seen.
            seen = Head(head.manifest.snapshot_id.encode(), head.manifest)
            self._refreshed = Refreshed(seen, known)
        elif head.dropped is not None:
            self._refreshed = self._head = None  # the next commit reads what came after

    @property
    def refreshed(self) -> Refreshed[M] | None:
        """What ``refresh`` has read, until a commit has taken it in."""
        return self._refreshed

    def capture(self) -> Head[M]:
        """Return the head that a commit made now would expect. Reads the store only if none is known."""
        refreshed = self._refreshed
        with self._lock:
            return self._capture(refreshed)

    def known_head(self) -> Head[M]:
        """As ``capture``, but do not wait for a commit of another thread: then it is the head before that."""
        head = self._head
        if head is not None and head.manifest is not None and not head.dangles and self._lock.is_held():
            return head
        return self.capture()

    def _capture(self, refreshed: Refreshed[M] | None) -> Head[M]:
        head = self._head
        if refreshed is not None and refreshed is self._refreshed:
            self._refreshed = None
        if refreshed is not None and self._is_newer(refreshed.head, head):
            try:
                self._known.check(*refreshed)
                head = refreshed.head
            except (NotFoundError, ManifestInvalidError):
                # Manifests that ``latest()`` has seen are gone: a drop removes them, and the head tells.
                self._head = head = self._known.settle(self._recovery.settle_after_grace)
                if head.dropped is not None:
                    raise dropped(self._chain.name, head.dropped.snapshot_id) from None
        elif head is None or self._recovery.has_changed(head):
            head = self._known.settle(self._recovery.settle_after_grace)
        elif head.pending is not None:
            # Our last commit, which could not be published. A commit never builds on an unpublished snapshot.
            head = self._published(head.pointer, head.pending)
        self._head = self._recovery.publish_owed(head)
        return self._head

    def _is_newer(self, refreshed: Head[M], head: Head[M] | None) -> bool:
        if head is None or refreshed.id == head.id:
            return head is None
        return self._chain.sequence_of(refreshed.parent) > self._chain.sequence_of(head.parent)

    def _published(self, pointer: bytes | None, placed: EncodedManifest[M]) -> Head[M]:
        """The head at our last commit, published by us or by another writer; no lost history gets it."""
        if self._chain.pointer() == pointer:
            return self._recovery.published(pointer, placed)
        self._known.settle(self._recovery.settle)
        return head_at(pointer, placed.manifest)

    def settle(self) -> Head[M]:
        """Read the head from the store. If its writer left it unpublished, publish it.

        Raises:
            HistoryLostError: Its history does not contain what this process knows.
        """
        return self._known.settle(self._recovery.settle)

    # -- committing a draft --------------------------------------------------------------------

    def begin(self, draft: Draft[M]) -> M | None:
        """Return the snapshot committed under the draft's key, if any. This saves a useless upload.

        Raises:
            TransactionClosedError: a snapshot is committed under the id that the caller chose.
        """
        draft.refreshed = self._refreshed
        draft.key_checked_at = draft.base or self._head or self.capture()
        found = self.find_key(draft.idempotency, draft.key_checked_at) if draft.idempotency else None
        if found is None and not draft.fresh and self._chain.manifest(draft.snapshot_id) is not None:
            raise self._intents.used(draft.snapshot_id)
        return found

    def find_key(self, idempotency: tuple[str, str], head: Head[M]) -> M | None:
        """Return the snapshot committed under this key, if the head this process knows contains it.

        Call it after the head is known. A key is published before any commit can build on its snapshot. So a
        key up to the head is found here, and a later one after the swap is lost.
        """
        path = self._chain.paths.key(*idempotency, self._chain.begins_after(head))
        try:
            record = get_bounded(self._store, path, MAX_KEY_BYTES)
        except NotFoundError:
            return None
        except ManifestInvalidError:
            record = b""  # far too large to be a key
        found = self._committed_under(idempotency, record)
        if found is None:
            # Its writer died between the key and the manifest, or its leader has not published the group yet.
            newest = self.settle()
            found = self._committed_under(idempotency, record)
            if found is None:
                # A power cut has taken the snapshot, or the key is damaged: history decides.
                self._chain.report_ignored(path, "it names no snapshot that was committed under this key")
                found = self._search(idempotency, newest.manifest)
                if found is not None:
                    self._publisher.put_key(found, idempotency)
        if found is not None:
            self._publisher.sync(found.snapshot_id)
        return found

    def _committed_under(self, idempotency: tuple[str, str], record: bytes) -> M | None:
        """The visible snapshot that a key's object names, if it was committed under this key."""
        snapshot_id = snapshot_of_key(record, idempotency)
        found = None if snapshot_id is None else self._chain.manifest(snapshot_id)
        # The manifest is authoritative: a damaged key must not make a missing write look complete.
        if found is None or found.idempotency != idempotency:
            return None
        # A member is not visible before its leader.
        leader = found.group.leader
        return found if not leader or self._chain.manifest(leader) is not None else None

    def _search(self, idempotency: tuple[str, str], newest: M | None) -> M | None:
        """Look for a key in the whole history. Only a key that does not fit costs that much."""
        for manifest in walk_back(self._chain, newest, self._runtime):
            if manifest.idempotency == idempotency:
                return manifest
        return None

    def commit(self, draft: Draft[M]) -> Committed[M]:
        """Append ``draft`` after its base, or after later commits that do not overlap with it.

        A draft without a base gets the head that this process knows now.

        Raises:
            SnapshotConflictError: a later commit overlaps, and no retry is left.
            CommitUnknownError: the store stopped answering at the swap.
            CommitUnpublishedError: the store stopped answering between swap and publication.
        """
        tally = _Tally(self._runtime.monotonic())
        captures = draft.base is None
        try:
            with self._lock:
                known = self._head.manifest if self._head is not None else None
                with self._contention.hold_turn(known) as is_stale:
                    manifest = self._place(draft, tally, is_stale=is_stale)
        except SnapshotConflictError:
            raise
        except LodeError:
            if captures and draft.landed is False:
                draft.base = None  # the next call is a new commit and captures its own base
            raise
        return self._report(manifest, tally, replayed=manifest.snapshot_id != draft.snapshot_id)

    def _place(self, draft: Draft[M], tally: _Tally, *, is_stale: bool) -> M:
        # Under contention the known head is certainly stale, so read it before the first swap. A draft that
        # is committed again already has the head that it lost to.
        behind = (is_stale or draft.is_behind) and draft.declared is None
        known = self._head
        if draft.base is None:
            draft.base = self._capture(draft.refreshed)
        elif known is None or known.pointer != draft.base.pointer or self._recovery.has_changed(draft.base):
            behind = True
        if draft.base.id is None and self._known.newest is not None:
            behind = True  # this is not the first snapshot, although there was none when the base was read
        if draft.idempotency is not None and draft.key_checked_at is not draft.base:
            # Another thread may have committed the key since it was looked up.
            found = self.find_key(draft.idempotency, draft.base)
            if found is not None:
                return found
            draft.key_checked_at = draft.base
        while behind or not self._attempt_on_head(draft, tally):
            settled = self._catch_up(draft, tally, lost=not behind)
            if settled is not None:
                return settled
            behind = False
        tally.attempts += 1
        placed = draft.declared
        assert placed is not None, "an attempt declares its draft"
        pointer = draft.snapshot_id.encode()
        self._head = head_at(pointer, draft.base.parent, placed)
        self._known.advance(placed.manifest)
        try:
            self._publisher.publish(placed)
        except StoreError as error:
            raise CommitUnpublishedError(
                f"{self._chain.name}: snapshot {draft.snapshot_id} is committed but its manifest could not "
                f"be written ({error}); do not write it again, the next commit publishes it",
                snapshot_id=draft.snapshot_id,
            ) from error
        self._recovery.open_pointer(placed.manifest)
        self._head = head_at(pointer, placed.manifest)
        for member in placed.before:
            self._summarize(member.manifest)
        self._groups.take_seat(self._head, placed.manifest)
        self._contention.end_turn(tally.others + len(placed.before))
        return placed.manifest

    def _attempt_on_head(self, draft: Draft[M], tally: _Tally) -> bool:
        """As ``_attempt``, but a draft that does not fit a base that is no longer the head catches up."""
        base = draft.base
        try:
            return self._attempt(draft, tally)
        except OverlappingBlocksError:
            if base is None or self._chain.pointer() == base.pointer:
                raise
            return False

    def _attempt(self, draft: Draft[M], tally: _Tally) -> bool:
        """Declare the draft as the child of its base, unless that is done, and swap.

        Returns:
            Whether the swap won. If not, another writer may have committed this draft with its own.
        """
        base = draft.base
        assert base is not None, "a draft has a base before it is tried"
        if tally.declared_on is not base:
            # What the head says of its own commit decides whether writers wait, because every writer reads
            # the same there. A writer that waits while another does not would always be overtaken.
            is_crowd = base.manifest is not None and self._contention.is_crowd(base.manifest)
            draft.crowd = crowd_after(base.crowd, 1) if is_crowd else 0
            self._declare_and_ask(draft, base, tally)
            tally.declared_on = base
            self._publish_owed(draft, base)
            # Only here, before the first swap from this base. A swap that was sent may win at any time until
            # the pointer leaves the base, and then the intent must be what every publisher reads.
            if is_crowd and self._can_wait(draft) and not self._lead(draft, base, tally):
                return False
        try:
            assert draft.declared is not None, "a draft is declared before it is swapped in"
            outcome = self._swap(base.pointer, draft.declared.manifest)
        except StoreError as error:
            raise self._undecided(draft, error) from error
        if outcome is Swap.WON:
            draft.landed = True
            return True
        if outcome is Swap.UNKNOWN:
            draft.landed = None
        tally.attempts += 1
        self._contention.lose()
        return False

    def _declare_and_ask(self, draft: Draft[M], base: Head[M], tally: _Tally) -> None:
        """Declare the draft. At the same time upload its files, and ask for a turn or look for requests."""
        requests = self._requests
        uploads = draft.uploads.pending() if draft.uploads is not None else []
        steps: list[Callable[[], bool | None]] = [*uploads, partial(self._declare, draft, base)]
        if tally.rebases >= LOSSES_BEFORE_REQUEST and not self._publisher.nearby:
            # A writer that has waited was declared on the head whose group went on without it.
            ask = requests.ask_leader if tally.waited else requests.ask_winner
            steps.append(partial(ask, draft, tally.declared_on if tally.waited else base))
        elif self._contention.is_unaware and requests.is_due(base):
            steps.append(partial(requests.winner_is_asked, base))
        if any(self._runtime.each_small(_call, steps)):
            self._contention.give_way()

    def _publish_owed(self, draft: Draft[M], base: Head[M]) -> None:
        """Publish the base if its writer has not. No swap may leave a snapshot that is not published."""
        try:
            self._recovery.publish_owed(base)
        except LodeError as error:
            raise self._undecided(draft, error) from error

    def _can_wait(self, draft: Draft[M]) -> bool:
        """Whether the draft, as declared, can wait for others instead of competing with them."""
        return self._publisher.swapping is not None and draft.can_wait and self._groups.has_room(draft)

    def _lead(self, draft: Draft[M], base: Head[M], tally: _Tally) -> bool:
        """Offer the draft to other writers. If none commits it, prepare to commit it with theirs.

        Returns:
            Whether the pointer was still at the base. False: catch up.
        """
        # From now on, until the pointer leaves the base, any writer may commit this draft.
        draft.landed = None
        size = base.crowd
        late = tally.waited > 0
        began = self._runtime.monotonic()
        try:
            slot = self._groups.enter(draft, base, late=late)
            entered = self._runtime.monotonic()
            if slot != LEADER:
                for looks, pause in enumerate(self._contention.pauses(size, slot, late=late)):
                    self._runtime.sleep(pause)
                    is_member = not late and (looks + 1) % POINTER_LOOK != 0
                    tally.seen = self._leave(draft, base, is_member=is_member)
                    if tally.seen is not None:
                        self._contention.observe_wait(self._runtime.monotonic() - entered, looks)
                        self._recovery.wait_for_group(tally.seen, size, draft.snapshot_id)
                        return False
            group = self._groups.arrange(draft, base, slot)
            if group is not None:
                self._intents.declare(draft, group)
        except TransactionClosedError:
            # A sweep has taken the intent. If the pointer has left the base, another writer may have
            # committed the draft before that. Otherwise its swap must not be sent.
            if self._chain.pointer() != base.pointer:
                return False
            raise
        except LodeError as error:
            raise self._undecided(draft, error) from error
        finally:
            tally.waited += self._runtime.monotonic() - began
        return True

    def _leave(self, draft: Draft[M], base: Head[M], *, is_member: bool) -> bytes | None:
        """The pointer after the commit of a group, with this draft or without it; None before that.

        Args:
            draft: The draft.
            base: Its base.
            is_member: Whether the draft is probably in the group. Then its own manifest shows the commit.
        """
        began = self._runtime.monotonic()
        if is_member:
            own = self._chain.manifest(draft.snapshot_id)
            pointer = None if own is None else own.group.leader.encode() or None
        else:
            found = self._chain.pointer()
            pointer = found if found != base.pointer else None
        self._contention.observe_read(self._runtime.monotonic() - began)
        return pointer

    def _catch_up(self, draft: Draft[M], tally: _Tally, *, lost: bool) -> M | None:
        """Rebase the draft onto the commits after its base, or return the one of them that is this draft."""
        base = draft.base
        assert base is not None, "a draft has a base before it is tried"
        known = self._known.newest
        head = self._read_head(draft, tally.seen)
        tally.seen = None
        # With the same pointer and another head, a foreign writer has published its dangling snapshot. It
        # counts as a commit of another writer, unless our own swap may still land on the intent as it is.
        if head.pointer == base.pointer and (head.id == base.id or draft.landed is None):
            self._check_known(draft, base, head, [], known)
            tally.unmoved += lost
            if tally.unmoved == MAX_UNANSWERED:
                stuck = StoreError(
                    f"{self._chain.paths.pointer} has the expected content and the store still refuses to "
                    f"replace it; {draft.snapshot_id} did not land"
                )
                raise self._undecided(draft, stuck)
            return None
        own = self._find_own(draft)
        if own is not None:
            tally.others += self._chain.sequence_of(head.parent) - self._chain.sequence_of(base.parent) - 1
            self._contention.observe(tally.others)
            self._head = head
            self._known.advance(own)
            self._groups.take_seat(head, own)
            return own
        later = self._commits_since(draft, base, head, known)
        settled = self._same_commit(draft, later, head)
        overlap = None if settled is not None else draft.overlap(later)
        if overlap is not None and draft.may_retry and tally.retries < self._retry.count:
            self._runtime.sleep(self._retry.delay(tally.retries, self._runtime.random()))
            tally.retries += 1
            known = self._known.newest
            head = self._read_head(draft)
            later = self._commits_since(draft, base, head, known)
            settled = self._same_commit(draft, later, head)
            overlap = None
        tally.others += len(later)
        self._contention.observe(tally.others)
        self._head = head
        if settled is not None:
            return settled
        draft.base = draft.key_checked_at = head
        if overlap is not None or tally.rebases == MAX_REBASES:
            raise SnapshotConflictError(self._conflict(draft, base, overlap, tally.rebases))
        tally.rebases += 1
        draft.rebases += 1
        return None

    def _declare(self, draft: Draft[M], base: Head[M]) -> None:
        """Put the intent, or replace the one put for an earlier base."""
        self._publisher.sync(base.id)
        draft.begins = self._chain.begins_after(base)
        manifest = draft.place_on(base.parent, self._chain.sequence_of(base.parent) + 1)
        placed = self._chain.encoded_behind(manifest, self._digest_of(base))
        began = self._runtime.monotonic()
        self._intents.declare(draft, placed)
        self._contention.observe_write(self._runtime.monotonic() - began)

    def _digest_of(self, base: Head[M]) -> str | None:
        """The digest by which a child names the base; None if it has no parent or names none."""
        if base.id is None or not self._chain.has_segments:
            return None
        if self._named is not None and self._named.snapshot_id == base.id:
            return self._named.sha256
        if base.owed is not None:
            return base.owed.sha256
        try:
            return self._chain.sha256_of(base.id)
        except ManifestInvalidError:
            return None  # it is gone, so it is no longer the head: the swap is lost

    def _swap(self, expected: bytes | None, manifest: M) -> Swap:
        """Move the pointer. Where Go may work it is closed until the manifest is published."""
        pointer = self._chain.paths.pointer
        snapshot_id = manifest.snapshot_id
        try:
            swapping = self._publisher.swapping
            if swapping is not None:
                shared = is_shared(manifest.sequence, manifest.x)
                content = closed_pointer(snapshot_id) if shared else snapshot_id.encode()
                swapped = swapping.compare_and_swap(pointer, expected, content)
                return Swap.WON if swapped else Swap.LOST
            # A store without compare-and-swap has one writer at a time. Its users guarantee that.
            if self._chain.pointer() != expected:
                return Swap.LOST
            self._store.delete(pointer)
            self._store.put(pointer, snapshot_id.encode())
        except OutcomeUnknownError:
            return Swap.UNKNOWN
        return Swap.WON

    # -- after a swap that did not win ---------------------------------------------------------

    def _read_head(self, draft: Draft[M], pointer: bytes | None = None) -> Head[M]:
        try:
            head = self._recovery.settle_after_grace(pointer, partial(self._may_owe, draft))
            # Now, because the walk to the base may read more manifests than are kept at hand.
            self._named = None if head.id is None else Named(head.id, self._digest_of(head))
            return head
        except LodeError as error:
            raise self._undecided(draft, error) from error

    def _may_owe(self, draft: Draft[M], pending: EncodedManifest[M]) -> bool:
        """Whether the draft can be declared as a child of an unpublished snapshot, which is published then.

        Its writer is probably publishing it just now. A draft that waits for that, or helps with it, is tried
        so late that the same writer wins again and again.
        """
        # If a swap of this draft may have won, or its key may be there, the answer is in what is published.
        # Nothing follows a drop in the same history.
        return (
            draft.landed is False
            and not pending.before
            and pending.manifest.operation != DROP
            and (draft.idempotency is None or draft.idempotency != pending.manifest.idempotency)
        )

    def _find_own(self, draft: Draft[M]) -> M | None:
        """The manifest of this draft, if it was committed by another writer or by a swap without an answer.

        The head is published, and the pointer has left the base. So if the draft is in history, its manifest
        is there, and if it is not, it can no longer get there as declared. That the history is still the same
        one is known when the commits after the base are read.
        """
        if draft.landed is not None:
            return None
        try:
            own = self._chain.manifest(draft.snapshot_id)
        except LodeError as error:
            raise self._undecided(draft, error) from error
        if own is not None:
            draft.landed = True
        return own

    def _commits_since(
        self, draft: Draft[M], base: Head[M], head: Head[M], known: M | None
    ) -> list[CommitSummary]:
        """The commits after the base, newest first."""
        try:
            later = commits_after(base, head.parent, draft, self._chain)
            if later is None:
                raise self._known.lost(base.id)
        except LodeError as error:
            raise self._undecided(draft, error) from error
        self._check_known(draft, base, head, later, known)
        return later

    def _check_known(
        self, draft: Draft[M], base: Head[M], head: Head[M], later: list[CommitSummary], known: M | None
    ) -> None:
        """Refuse a head that contains the base and not the newest snapshot that this process knew."""
        if known is None or known.snapshot_id in (base.id, *(commit.snapshot_id for commit in later)):
            if head.parent is not None:
                self._known.advance(head.parent)
            return
        if later and later[-1].operation == DROP:
            return  # the caller is told
        try:
            self._known.check(head, known)
        except LodeError as error:
            raise self._undecided(draft, error) from error

    def _undecided(self, draft: Draft[M], error: LodeError) -> LodeError:
        """The error to raise when the store fails.

        It is the store's own, unless a swap of this draft had no answer: then its files may be in history.
        """
        if draft.landed is False:
            return error
        return CommitUnknownError(
            f"{self._chain.name}: the store stopped answering while {draft.snapshot_id} was committed, "
            "so it may or may not have landed; look for it in the history before writing it again",
            snapshot_id=draft.snapshot_id,
        )

    def _same_commit(self, draft: Draft[M], later: list[CommitSummary], head: Head[M]) -> M | None:
        """The later commit that is this draft: its own swap that won after all, or one with the same key.

        A snapshot that has a child has published its key, so one read decides.
        """
        if any(commit.snapshot_id == draft.snapshot_id for commit in later):
            if draft.declared is None or not draft.fresh:
                raise self._intents.used(draft.snapshot_id)
            draft.landed = True
            return draft.declared.manifest
        # The pointer has left the value that our swaps expected and never returns to it: none can win now.
        draft.landed = False
        if later and later[-1].operation == DROP:
            self._head = head
            raise dropped(self._chain.name, later[-1].snapshot_id)
        if draft.idempotency is None or not later:
            return None
        return self.find_key(draft.idempotency, head)

    # -- snapshots of a copy -------------------------------------------------------------------

    def declare(self, placed: EncodedManifest[M]) -> None:
        """Put the intent of a copied snapshot after its files exist. From then on no sweep removes them.

        Raises:
            TransactionClosedError: a sweep has fenced the id.
        """
        self._intents.declare_copy(placed)

    def claim(self, placed: EncodedManifest[M], expected: bytes | None) -> bool:
        """Declare a copied snapshot and move the pointer to it. Call ``publish`` next.

        Args:
            placed: The snapshot.
            expected: The pointer that it replaces; None if there must be none.

        Returns:
            Whether the pointer names this snapshot now; False if another process has moved it.

        Raises:
            TransactionClosedError: a sweep has fenced the id.
        """
        snapshot_id = placed.manifest.snapshot_id
        self._publisher.sync(placed.manifest.parent_snapshot_id if expected is not None else None)
        self.declare(placed)
        for _ in range(MAX_UNANSWERED):
            if self._swap(expected, placed.manifest) is Swap.WON:
                return True
            pointer = self._chain.pointer()
            if pointer != expected:
                return pointer == snapshot_id.encode()
        raise StoreError(
            f"{self._chain.paths.pointer} has the expected content and the store does not replace it; "
            f"{snapshot_id} did not land"
        )

    def publish(self, placed: EncodedManifest[M]) -> None:
        """Publish a snapshot that was claimed, or an ancestor of one."""
        self._publisher.publish(placed)
        self._recovery.open_pointer(placed.manifest)

    # -- results -------------------------------------------------------------------------------

    def _report(self, manifest: M, tally: _Tally, *, replayed: bool = False) -> Committed[M]:
        seconds = self._runtime.monotonic() - tally.began
        report = CommitReport(
            tally.attempts,
            tally.rebases,
            tally.retries,
            seconds,
            replayed,
            group=manifest.group.size,
            waited=tally.waited,
        )
        logger.debug("%s: committed %s: %s", self._chain.name, manifest.snapshot_id, report)
        if not replayed and manifest.group.leads:
            self._summarize(manifest)
        if self._observer is not None:
            try:
                self._observer(manifest.snapshot_id, report)
            except Exception:  # an error of the observer does not undo the commit
                logger.exception("the commit observer of %s failed", self._chain.name)
        return Committed(manifest, report)

    def _summarize(self, manifest: M) -> None:
        """Begin what follows a commit. The leader does it for its group: it has all manifests at hand."""
        if self._afterwards is not None:
            self._afterwards(manifest)

    def _conflict(self, draft: Draft[M], base: Head[M], overlap: str | None, rebases: int) -> str:
        reason = overlap or f"other writers were faster {rebases} times"
        after = f"after {base.id} " if base.id else ""
        return f"{self._chain.name}: {after}{reason}, so {draft.snapshot_id} did not land; {draft.remedy}"
