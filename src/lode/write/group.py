"""Commit many waiting drafts with one swap.

Under contention a writer puts its draft into a *slot* of the head instead of competing for the pointer. One
writer, the *leader*, reads the slots, makes the drafts parent and child in order, itself last, and puts all
of them into its intent. Its swap then commits the whole group or nothing.

Slots belong to one head. When the pointer leaves that head, no swap from it can win any more, and all its
slots are dead. So no slot is ever removed by a writer; a sweep removes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

from msgspec.structs import replace

from lode.errors import (
    DataError,
    InvalidPathError,
    LodeError,
    NotFoundError,
    OutcomeUnknownError,
    PathExistsError,
)
from lode.format.group import decode_waiting, encode_waiting
from lode.format.manifest import DROP, MAX_CROWD, encode_manifest
from lode.read.resolve import AnyManifest, EncodedManifest, named_parent
from lode.read.source import get_bounded
from lode.runtime import one_by_one
from lode.store.protocol import check_path
from lode.write.contention import LEADER, Contention, crowd_after

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lode.format.group import Follows
    from lode.read.resolve import Chain, Head
    from lode.runtime import Runtime
    from lode.write.draft import Draft
    from lode.write.publish import Publisher
    from lode.write.turn import TurnRequests

# Slots of the first level beyond those for the expected writers.
SPARE_SLOTS: Final = 6
# Further slots when a crowd begins: its size is unknown then.
UNKNOWN_SLOTS: Final = 8
# How many of these are for writers that came too late for the last group.
MIN_LATE_SLOTS: Final = 3
# How many slots of a level a writer tries.
MAX_TRIES: Final = 2
# A draft with a larger manifest is committed alone; a group ends before it is larger.
MAX_WAITING_BYTES: Final = 256 << 10
MAX_GROUP_BYTES: Final = 8 << 20
# How many newcomers to a group should try to lead it, on average.
CANDIDATES: Final = 3

M = TypeVar("M", bound=AnyManifest)


@dataclass(frozen=True, slots=True)
class _Found(Generic[M]):
    """A draft that was found in a slot."""

    manifest: M
    follows: Follows
    size: int
    write: float


class Groups(Generic[M]):
    """Waits in groups of one history, and leads them."""

    def __init__(
        self,
        chain: Chain[M],
        runtime: Runtime,
        publisher: Publisher[M],
        contention: Contention,
        requests: TurnRequests[M],
    ) -> None:
        self._chain = chain
        self._store = chain.store
        self._runtime = runtime
        self._publisher = publisher
        self._contention = contention
        self._requests = requests
        # The head that the last commit of this process led to, and the slot that is its own there.
        self._seat: tuple[str | None, int] = (None, LEADER)

    def levels(self, head: Head[M]) -> list[range]:
        """The slots of this head, in levels that double. Every writer computes the same from the head.

        The first level has room for all writers that are expected. A leader reads the next level only if
        many of this one are taken, so a group can grow at once, and a small one costs few reads.
        """
        size = head.crowd
        levels = [range(size + size // 4 + SPARE_SLOTS + (0 if size > 1 else UNKNOWN_SLOTS))]
        while levels[-1].stop < MAX_CROWD:
            levels.append(range(levels[-1].stop, 2 * levels[-1].stop))
        return levels

    def has_room(self, draft: Draft[M]) -> bool:
        """Whether the draft, as declared, fits into a slot."""
        return draft.declared is not None and len(draft.declared.data) <= MAX_WAITING_BYTES

    def take_seat(self, head: Head[M], manifest: M) -> None:
        """Remember which slot is free for this process after its commit, so that it need not search."""
        place = manifest.group
        self._seat = (head.id, LEADER if place.leads else place.place)

    def enter(self, draft: Draft[M], head: Head[M], *, late: bool = False) -> int | None:
        """Put the draft, which is declared as a child of the head, into a slot.

        From here on any writer may commit it, until the pointer leaves this head.

        Args:
            draft: The draft.
            head: The head.
            late: Whether it came too late for the last group.

        Returns:
            The slot; None if those that were tried are taken.
        """
        assert draft.declared is not None, "a draft is declared before it waits"
        assert head.id is not None, "a group follows a snapshot"
        data = encode_waiting(draft.follows, draft.declared.data, self._contention.request_seconds)
        # Not synced: after a power cut no leader is left to read it.
        volatile = self._publisher.volatile
        put = volatile.put_volatile if volatile else self._store.put

        def take(slot: int) -> bool:
            try:
                put(self._chain.paths.slot(head.id or "", slot), data)
            except PathExistsError:
                return False
            except OutcomeUnknownError:
                pass  # it may be there, and any writer may lead
            return True

        choices = self._choices(draft, head, late=late)
        # When a crowd begins, all try to lead and most cannot. A leader takes a draft in two slots once.
        first = list(islice(choices, 2 if head.crowd <= 1 else 1))
        for slot, taken in zip(first, self._runtime.each_small(take, first), strict=True):
            if taken:
                return slot
        return next(filter(take, choices), None)

    def arrange(self, draft: Draft[M], head: Head[M], slot: int | None = None) -> EncodedManifest[M] | None:
        """Place the draft behind those that wait for the same head; None if it is the only one.

        Args:
            draft: The draft of the leader.
            head: The head.
            slot: The leader's own slot, if it has one. The first one gives the expected drafts time to come.
        """
        if draft.follows == "head":
            return None
        found = self._collect(head, slot)
        self._contention.observe_group([waiting.write for waiting in found])
        members = self._members(draft, found)
        if not members:
            return None
        try:
            last = draft.place_on(members[-1], self._chain.sequence_of(members[-1]) + 1)
        except LodeError:
            return None  # it does not fit behind them, so it goes alone
        size = len(members) + 1
        crowd = crowd_after(head.crowd, size)
        placed: list[EncodedManifest[M]] = []
        assert draft.declared is not None, "a draft is declared before it leads"
        digest = (draft.declared.manifest.x or {}).get("parent_sha256")
        for place, member in enumerate((*members, last), 1):
            group = {"place": place, "size": size, "leader": draft.snapshot_id}
            placed.append(self._chain.encoded_behind(_in_group(member, group, crowd), digest))
            digest = placed[-1].sha256
        return EncodedManifest(placed[-1].manifest, placed[-1].data, tuple(placed[:-1]))

    # -- slots ---------------------------------------------------------------------------------

    def _choices(self, draft: Draft[M], head: Head[M], *, late: bool) -> Iterator[int]:
        """The slots to try: the one kept from the last group, or else some near a random one.

        The leader of the last group leads the next one, because it knows the new head first. Of the writers
        that were not there, a few try to lead, in case that one has nothing to commit.
        """
        assert head.manifest is not None, "a group follows a snapshot"
        random = self._runtime.random
        tried = set()
        if draft.follows != "head":
            if self._seat[0] == head.id:
                tried.add(self._seat[1])
            elif random() * head.crowd < CANDIDATES:
                tried.add(LEADER)
        reserved = self._late_slots(head)
        if late and reserved:
            tried.add(reserved[int(random() * len(reserved))])
        yield from sorted(tried)
        tried.add(LEADER)
        for level in self.levels(head):
            start = int(random() * len(level))
            free = (slot for slot in chain(level[start:], level[:start]) if slot not in tried)
            yield from islice(free, MAX_TRIES)

    def _late_slots(self, head: Head[M]) -> range:
        """The slots for writers that came too late for the last group. A leader looks there at every look."""
        size = head.crowd
        return self.levels(head)[0][size : size + MIN_LATE_SLOTS + size // 8]

    def _collect(self, head: Head[M], own: int | None) -> list[_Found[M]]:
        """The other drafts that wait for this head, in the order of their slots.

        Args:
            head: The head.
            own: The slot of the leader, if it has one.
        """
        assert head.id is not None, "a group follows a snapshot"
        each = one_by_one if self._publisher.nearby else self._runtime.each_small
        room = MAX_GROUP_BYTES
        drafts = list[_Found[M]]()

        def read(slot: int) -> _Found[M] | None:
            # Large drafts must not fill the memory, however many there are: at most one more per thread.
            nonlocal room
            found = self._read(self._chain.paths.slot(head.id or "", slot)) if room >= 0 else None
            room -= found.size if found is not None else 0
            return found

        def add(found: dict[int, _Found[M] | None], slots: Sequence[int]) -> int:
            missing = [slot for slot in slots if slot != own and found.get(slot) is None]
            found.update(zip(missing, each(read, missing), strict=True))
            return sum(draft is not None for draft in found.values()) + (own in slots)

        expected = head.crowd
        for level in self.levels(head):
            found: dict[int, _Found[M] | None] = {}
            if own == LEADER and not level.start:
                # Members that return have the first slots. Newcomers that are not there at the first look
                # wait for the next group.
                slots, returning = level, range(expected)
                began = self._runtime.monotonic()
                patience = self._contention.patience if self._requests.leader_is_asked(head) else 0
                looked = self._runtime.monotonic() - began
                for pause, enough in self._contention.gathering(expected):
                    self._runtime.sleep(max(pause - looked, 0) + patience)
                    looked = patience = 0
                    add(found, slots)
                    if sum(found.get(slot) is not None for slot in returning) + 1 >= enough:
                        break
                    slots = range(expected + len(self._late_slots(head)))
            taken = add(found, [slot for slot in level if slot not in found])
            drafts += [draft for _, draft in sorted(found.items()) if draft is not None]
            if taken < (expected + len(level)) // 2 or room < 0:
                break
            expected = 0
        return drafts

    def _read(self, path: str) -> _Found[M] | None:
        """The draft in a slot; None if there is none that can be used."""
        try:
            data = get_bounded(self._store, path, 2 * MAX_WAITING_BYTES)
            waiting = decode_waiting(data, path)
            encoded = bytes(waiting.manifest)
            manifest = self._chain.checked(encoded, path)
            # What cannot be published must not be committed.
            copies = self._chain.copies(EncodedManifest(manifest, encoded))
            for target in (self._chain.paths.manifest(manifest.snapshot_id), *copies):
                check_path(target)
        except NotFoundError:
            return None
        except (DataError, InvalidPathError) as error:
            self._chain.report_ignored(path, error)
            return None
        return _Found(manifest, waiting.follows, len(data), waiting.write)

    # -- order ---------------------------------------------------------------------------------

    def _members(self, draft: Draft[M], found: Iterable[_Found[M]]) -> list[M]:
        """Those drafts that can be committed before this one, in order, each as the child of the one before.

        A draft that may only follow the head comes first. What does not fit waits for the next head.
        """
        declared = draft.declared
        assert declared is not None, "a draft is declared before it leads"
        line, members, room = draft.line(), list[M](), MAX_GROUP_BYTES
        ids = {draft.snapshot_id, declared.manifest.parent_snapshot_id}
        keys = {draft.idempotency} - {None}
        for waiting in sorted(found, key=lambda each: each.follows != "head"):
            other = waiting.manifest
            if (
                other.snapshot_id in ids
                or other.idempotency in keys
                or not _is_sibling(other, declared.manifest)
            ):
                continue
            placed = line.place(other, waiting.follows)
            if placed is None:
                continue
            # A manifest of a volume repeats the blocks of the members before it.
            room -= len(encode_manifest(placed))
            if room < 0:
                break
            members.append(placed)
            ids.add(other.snapshot_id)
            keys |= {other.idempotency} - {None}
        return members


def _is_sibling(other: AnyManifest, ours: AnyManifest) -> bool:
    """Whether both are drafts on the same head."""
    return (
        named_parent(other) == named_parent(ours)
        and other.sequence == ours.sequence
        and other.begins == ours.begins
        and other.operation != DROP
    )


def _in_group(manifest: M, group: dict[str, Any], crowd: int) -> M:
    extension = {**(manifest.x or {}), "group": group}
    extension.pop("crowd", None)
    if crowd > group["size"]:
        extension["crowd"] = crowd
    placed: M = replace(cast("Any", manifest), x=extension)
    return placed
