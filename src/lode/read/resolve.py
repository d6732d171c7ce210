"""Find the head of a history: pointer, manifest, and what to make of a pointer without a manifest.

Only the snapshot that the pointer names can be unpublished, and the other members of its group, because no
writer builds on a snapshot before its manifest is there. The intent of that one snapshot holds all of them.
So a reader looks at two objects, at most four, and never waits.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from hashlib import sha256
from itertools import pairwise
from posixpath import commonprefix
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, Protocol, TypeVar, cast

import msgspec

from lode.errors import (
    ComponentMismatchError,
    DataError,
    HistoryForkedError,
    ManifestInvalidError,
    NoSnapshotsError,
    NotFoundError,
    StoreError,
)
from lode.format.copies import PartitionCopies
from lode.format.group import decode_group, encode_group
from lode.format.ids import is_id, shortened
from lode.format.manifest import (
    DROP,
    DROP_SUFFIX,
    MAX_CROWD,
    MAX_MANIFEST_BYTES,
    MAX_SEQUENCE,
    Manifest,
    crowd_of,
    decode_whole_manifest,
    encode_manifest,
)
from lode.format.paths import DefaultLayout, HiveLayout
from lode.format.pointer import named_in
from lode.format.volume import VolumeManifest, decode_volume_manifest, volume_chain
from lode.read.source import get_bounded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from lode.format.manifest import GroupPlace
    from lode.format.paths import ChainPaths, Layout
    from lode.store.protocol import Store

MAX_CACHED_MANIFESTS: Final = 64
MAX_CACHED_BYTES: Final = 1 << 20
MAX_CACHE_BYTES: Final = 4 << 20
# An intent of this size is not read by a writer that only waits for its group.
LARGE_INTENT_BYTES: Final = 256 << 10
# A pointer is one snapshot id, perhaps with white space around it.
MAX_POINTER_BYTES: Final = 4096
# How many ignored objects of one history are reported.
MAX_REPORTS: Final = 1000
GUIDE: Final = "docs/guides/recovering.md"
# How long a writer outside this protocol may take from its swap to its manifest before it counts as dead.
GRACE_SECONDS: Final = 3.0
# How often a reader looks for the head beside a writer outside this protocol that is faster than its listing.
MAX_LOOKS: Final = 1000

logger = logging.getLogger("lode.history")


class _Unread(Enum):
    """The type of ``UNREAD``, a pointer that was not read yet. None is a pointer that does not exist."""

    UNREAD = 0


UNREAD: Final = _Unread.UNREAD


class AnyManifest(Protocol):
    """What the history needs of a manifest of a dataset or of a volume."""

    @property
    def owner_id(self) -> str: ...
    @property
    def snapshot_id(self) -> str: ...
    @property
    def parent_snapshot_id(self) -> str | None: ...
    @property
    def created_at(self) -> str: ...
    @property
    def sequence(self) -> int | None: ...
    @property
    def idempotency(self) -> tuple[str, str] | None: ...
    @property
    def operation(self) -> str: ...
    @property
    def begins(self) -> int: ...
    @property
    def group(self) -> GroupPlace: ...
    @property
    def x(self) -> dict[str, Any] | None: ...


M = TypeVar("M", bound=AnyManifest)


class Named(NamedTuple):
    """A snapshot as its child names it. Go and earlier versions name no digest."""

    snapshot_id: str
    sha256: str | None = None


def named_parent(manifest: AnyManifest) -> Named | None:
    """The parent of a snapshot as it names it; None for the first one."""
    parent = manifest.parent_snapshot_id
    return None if not parent else Named(parent, (manifest.x or {}).get("parent_sha256"))


def digest_of(data: bytes) -> str:
    """The digest of a manifest's bytes, by which a child names it."""
    return sha256(data.strip()).hexdigest()


# Structs: each commit makes several, and a frozen dataclass takes five times as long.
class EncodedManifest(msgspec.Struct, Generic[M], frozen=True):
    """A snapshot's manifest and its bytes.

    ``before`` are the other members of its group, in order: one swap commits them with it.
    """

    manifest: M
    data: bytes
    before: tuple[EncodedManifest[M], ...] = ()

    @property
    def intent(self) -> bytes:
        """The bytes of its intent."""
        return encode_group(self.data, [member.data for member in self.before]) if self.before else self.data

    @property
    def sha256(self) -> str:
        """The digest by which a child names it."""
        return digest_of(self.data)

    @property
    def follows(self) -> str | None:
        """The snapshot that the swap replaces as the head."""
        return (self.before[0] if self.before else self).manifest.parent_snapshot_id


class Head(msgspec.Struct, Generic[M], frozen=True):
    """The end of a history, as one process has read it.

    ``pointer`` is the pointer's content, which a swap must expect. ``manifest`` is the newest visible
    snapshot. ``pending`` is the intent of the snapshot that the pointer names while it is unpublished.
    ``dropped`` is the commit that has dropped everything, if nothing is visible after it. ``owed`` is
    ``manifest`` if it may not be published yet: a writer publishes it before the swap that builds on it.
    """

    pointer: bytes | None
    manifest: M | None
    pending: EncodedManifest[M] | None = None
    dropped: M | None = None
    owed: EncodedManifest[M] | None = None

    @property
    def parent(self) -> M | None:
        """The snapshot that the next commit follows: the newest one, or a drop."""
        return self.manifest or self.dropped

    @property
    def id(self) -> str | None:
        """The snapshot that the next commit follows; None if it is the first."""
        parent = self.manifest or self.dropped
        return None if parent is None else parent.snapshot_id

    @property
    def crowd(self) -> int:
        """How many writers are active, as the newest snapshot has it."""
        return crowd_of(self.manifest.x) if self.manifest is not None else 1

    @property
    def names_manifest(self) -> bool:
        """Whether the pointer names the snapshot that the next commit follows; also if there is neither."""
        parent = self.manifest or self.dropped
        return self.pointer == (None if parent is None else parent.snapshot_id.encode())

    @property
    def dangles(self) -> bool:
        """Whether the pointer names a snapshot that has neither a manifest nor an intent."""
        return self.pending is None and self.pointer is not None and not self.names_manifest


def head_at(pointer: bytes | None, newest: M | None, pending: EncodedManifest[M] | None = None) -> Head[M]:
    """The head with this newest snapshot, which may be a drop."""
    if newest is not None and newest.operation == DROP:
        return Head(pointer, None, pending, newest)
    return Head(pointer, newest, pending)


def decode_intent(data: bytes, path: str, decode: Callable[[bytes, str], M]) -> EncodedManifest[M]:
    """The snapshot of an intent with the other members of its group, or ``ManifestInvalidError``."""
    own, others = decode_group(data, path)
    before = tuple(EncodedManifest(decode(other, path), other) for other in others)
    return EncodedManifest(decode(own, path), own, before)


def is_cut_off(data: bytes) -> bool:
    """Whether a JSON document ends too early."""
    try:
        msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        return "truncated" in str(error)
    except (UnicodeDecodeError, RecursionError):
        pass
    return False


def begins_with(manifest: AnyManifest) -> bool:
    """Whether history begins with this snapshot, although it has a parent: that is a drop."""
    return manifest.begins > 1 and manifest.sequence == manifest.begins


# The place of a Hive layout's manifests does not depend on its keys, so any will do to find them.
ANY_KEYS: Final = HiveLayout("?")


@dataclass(slots=True)
class Chain(Generic[M]):
    """One linear history on a store: reads its pointer, manifests and intents."""

    store: Store
    paths: ChainPaths
    decode: Callable[[bytes, str], M]
    # The bytes of a manifest's copies, by their paths.
    copies: Callable[[EncodedManifest[M]], Mapping[str, bytes]]
    name: str
    # The id of the dataset or volume, which every manifest repeats.
    owner: str
    # Where other layouts that share this pointer keep their manifests.
    others: tuple[ChainPaths, ...] = ()
    # Whether its writers write history segments.
    has_segments: bool = False
    # Not an LRUCache: each commit puts its manifest here, and that one's methods are written in Python.
    _cached: dict[str, bytes] = field(default_factory=dict)
    _cached_bytes: int = 0
    # The digest of the last manifest that was too large to be kept.
    _large: dict[str, str] = field(default_factory=dict)
    # The derived objects that were reported as ignored.
    _ignored: set[str] = field(default_factory=set)
    _lock: Lock = field(default_factory=Lock)

    def pointer(self) -> bytes | None:
        """The snapshot that the pointer names, open or closed; None if there is no pointer."""
        try:
            return named_in(get_bounded(self.store, self.paths.pointer, MAX_POINTER_BYTES))
        except NotFoundError:
            return None

    def named_by(self, pointer: bytes) -> str:
        """The snapshot that a pointer's content names.

        No writer of this format, dead or alive, leaves a pointer that cannot be an id. So that is damage, and
        is neither used as a path nor overtaken like a pointer whose writer died.
        """
        try:
            snapshot_id = pointer.decode()
        except UnicodeDecodeError:
            snapshot_id = ""
        if not is_id(snapshot_id):
            raise ManifestInvalidError(
                f"{self.paths.pointer} holds {shortened(pointer)}, which is no snapshot id: remove that "
                f"object, the head is then found from the manifests ({GUIDE}#a-damaged-pointer)"
            )
        return snapshot_id

    def manifest(self, snapshot_id: str) -> M | None:
        """The snapshot's published manifest, or None. Manifests never change, so recent ones are kept."""
        found = self.published(snapshot_id)
        return None if found is None else found.manifest

    def published(self, snapshot_id: str) -> EncodedManifest[M] | None:
        """The snapshot's published manifest with its bytes, or None."""
        path = self.paths.manifest(self._checked_id(snapshot_id))
        with self._lock:
            known = self._cached.get(snapshot_id)
        if known is not None:
            return EncodedManifest(self.decode(known, path), known)
        try:
            data = get_bounded(self.store, path, MAX_MANIFEST_BYTES)
        except NotFoundError:
            return None
        try:
            manifest = self.checked(data, path, snapshot_id)
        except ManifestInvalidError:
            if is_cut_off(data) and self._is_being_written(snapshot_id):
                return None
            raise
        self.remember(snapshot_id, data)
        return EncodedManifest(manifest, data)

    def _is_being_written(self, snapshot_id: str) -> bool:
        """Whether a manifest that is cut off was begun just now by a writer outside this protocol.

        Go's put on a disk is not atomic: for a moment the file is there and its content is not. Our own
        snapshots have an intent beside them and are whole at once, so one that is cut off is damaged.
        """
        if self.store.exists(self.paths.intent(snapshot_id)):
            return False
        try:
            begun = self.store.head(self.paths.manifest(snapshot_id)).modified
        except NotFoundError:
            return True
        return (datetime.now(UTC) - begun).total_seconds() < GRACE_SECONDS

    def checked(self, data: bytes, origin: str, snapshot_id: str | None = None) -> M:
        """Decode a manifest, and refuse one of another snapshot or of another dataset or volume."""
        return self.check_owner(self.decode(data, origin), origin, snapshot_id)

    def check_owner(self, manifest: M, origin: str, snapshot_id: str | None = None) -> M:
        """Refuse a manifest of another snapshot, or of another dataset or volume."""
        if snapshot_id is not None and manifest.snapshot_id != snapshot_id:
            raise ManifestInvalidError(
                f"{origin}: field 'snapshot_id' is {shortened(manifest.snapshot_id)}, but it is stored as "
                f"snapshot {snapshot_id!r}: restore the manifest ({GUIDE}#a-damaged-manifest)",
                field="snapshot_id",
            )
        if manifest.owner_id != self.owner:
            kind = self.name.partition(" ")[0]
            raise ManifestInvalidError(
                f"{origin}: field '{kind}_id' is {shortened(manifest.owner_id)}, but it is stored under "
                f"{self.owner!r}: if it was copied by hand, move it back to its own name, or write its "
                f"content to a new {kind} ({GUIDE}#a-copy-under-another-name)",
                field=f"{kind}_id",
            )
        return manifest

    def _checked_id(self, snapshot_id: str) -> str:
        """Return an id that may become part of a path. Users' own were checked before; this is for damage."""
        if not is_id(snapshot_id):
            raise ManifestInvalidError(
                f"{self.name}: its objects name a snapshot {shortened(snapshot_id)}, which cannot be an id: "
                f"lode verify says where ({GUIDE}#a-damaged-manifest)"
            )
        return snapshot_id

    def encoded_behind(self, manifest: M, parent_sha256: str | None) -> EncodedManifest[M]:
        """The manifest and its bytes, bound to a parent with this digest if there are segments to check."""
        if parent_sha256 is not None and self.has_segments:
            extension = {**(manifest.x or {}), "parent_sha256": parent_sha256}
            manifest = msgspec.structs.replace(cast("Any", manifest), x=extension)
        return EncodedManifest(manifest, encode_manifest(manifest))

    def sha256_of(self, snapshot_id: str) -> str:
        """The digest of a published manifest. One that was just read or put is not read again."""
        with self._lock:
            known = self._cached.get(snapshot_id)
            digest = self._large.get(snapshot_id)
        if known is not None:
            return digest_of(known)
        if digest is None:
            found = self.published(snapshot_id)
            if found is None:
                raise self.damaged(snapshot_id, "is missing, and its digest is needed")
            digest = found.sha256
        return digest

    def report_ignored(self, path: str, reason: object) -> None:
        """Log, once for each object, that a derived object does not fit the history it was made from."""
        if path not in self._ignored and len(self._ignored) < MAX_REPORTS:
            self._ignored.add(path)
            logger.warning("%s: %s is ignored, it is damaged or forged: %s", self.name, path, reason)

    def remember(self, snapshot_id: str, data: bytes) -> None:
        """Keep a published manifest's bytes at hand. They must have been decoded and checked."""
        with self._lock:
            if len(data) <= MAX_CACHED_BYTES:
                self._remember(snapshot_id, data)
            else:
                # The next commit names it by its digest.
                self._large.clear()
                self._large[snapshot_id] = digest_of(data)

    def _remember(self, snapshot_id: str, data: bytes) -> None:
        cached = self._cached
        if snapshot_id not in cached:
            self._cached_bytes += len(data)
            cached[snapshot_id] = data
        while len(cached) > MAX_CACHED_MANIFESTS or self._cached_bytes > MAX_CACHE_BYTES:
            self._cached_bytes -= len(cached.pop(next(iter(cached))))

    def take_remembered(self, other: Chain[M]) -> None:
        """Keep what another chain of the same history has read."""
        if other.paths == self.paths:
            with self._lock, other._lock:
                for snapshot_id, data in other._cached.items():
                    self._remember(snapshot_id, data)

    def intent(self, snapshot_id: str) -> EncodedManifest[M] | None:
        """The snapshot's intent, or None if there is none that can be read.

        Intents are not synced to disk, so a machine that lost power may leave a torn one; its snapshot
        was never acknowledged and counts as never begun.
        """
        path = self.paths.intent(self._checked_id(snapshot_id))
        try:
            return self.decode_intent(get_bounded(self.store, path, MAX_MANIFEST_BYTES), path, snapshot_id)
        except NotFoundError:
            return None

    def _start_of_intent(self, snapshot_id: str) -> tuple[EncodedManifest[M] | None, int]:
        """The snapshot's intent, unless it is large, and about how many members its group has.

        The intent of a large group has megabytes. Thousands of writers may wait for that group, and only one
        that publishes it needs them.
        """
        path = self.paths.intent(self._checked_id(snapshot_id))
        try:
            start = self.store.get_range(path, 0, LARGE_INTENT_BYTES)
            ids = start.count(b'"snapshot_id"')
            if len(start) == LARGE_INTENT_BYTES and ids > 1:
                # Bounded, because a damaged object may have any size, and the size decides how long to wait.
                return None, min(ids * self.store.head(path).size // len(start), MAX_CROWD)
        except NotFoundError:
            return None, 1
        if len(start) == LARGE_INTENT_BYTES:
            intent = self.intent(snapshot_id)
        else:
            intent = self.decode_intent(start, path, snapshot_id)
        return intent, 1 if intent is None else len(intent.before) + 1

    def decode_intent(self, data: bytes, path: str, snapshot_id: str) -> EncodedManifest[M] | None:
        """The snapshot of an intent with the other members of its group; None if it cannot be read."""
        try:
            intent = decode_intent(data, path, self.decode)
        except ManifestInvalidError:
            return None
        self.check_owner(intent.manifest, path, snapshot_id)
        line = [*(member.manifest for member in intent.before), intent.manifest]
        for member, child in pairwise(line):
            if self.check_owner(member, path, None).snapshot_id != child.parent_snapshot_id:
                return None
        return intent

    def require(self, snapshot_id: str) -> M:
        """The snapshot's manifest, or ``NotFoundError``."""
        found = self.manifest(snapshot_id)
        if found is None:
            raise NotFoundError(f"{self.name} has no snapshot {snapshot_id!r} in {self.store.url}")
        return found

    def resolve(
        self,
        *,
        pointer: bytes | _Unread | None = UNREAD,
        wait_for_group: Callable[[bytes, int], None] | None = None,
    ) -> Head[M]:
        """Find the newest visible snapshot: two reads, a few more while a writer is committing.

        Args:
            pointer: The pointer's content if the caller has just read it.
            wait_for_group: Called once if the pointer names an unpublished group, with the pointer and about
                how many members the group has.
        """
        for remaining in reversed(range(MAX_LOOKS)):
            if isinstance(pointer, _Unread):
                pointer = self.pointer()
            if pointer is None:
                return head_at(None, self._head_without_pointer())
            snapshot_id = self.named_by(pointer)
            published = self.manifest(snapshot_id)
            if published is not None:
                return head_at(pointer, published)
            if wait_for_group is not None:
                intent, size = self._start_of_intent(snapshot_id)
                if size > 1:
                    wait_for_group(pointer, size)
                    wait_for_group = None
                    continue
            else:
                intent = self.intent(snapshot_id)
            if intent is not None:
                parent = intent.follows
                return head_at(pointer, self._before(intent, parent) if parent else None, intent)
            self._refuse_other_layout(snapshot_id)
            # Neither: a foreign writer died here, or its manifest came just now, or the pointer moved on.
            if self._is_still_at(pointer, snapshot_id):
                found = self._head_beside(pointer, snapshot_id, last=not remaining)
                if found is not None:
                    return found
            pointer = self.pointer()
        raise NotFoundError(
            f"{self.name} in {self.store.url} changed {MAX_LOOKS} times while its head was read: try again"
        )

    def _is_still_at(self, pointer: bytes, snapshot_id: str) -> bool:
        return self.pointer() == pointer and self.manifest(snapshot_id) is None

    def _head_beside(self, pointer: bytes, snapshot_id: str, *, last: bool) -> Head[M] | None:
        """The head by parent links, beside a pointer without a manifest; None if that was not its end.

        A listing is not atomic. If the foreign writer goes on meanwhile, the manifests that were found need
        not form a line, and none of them need be the newest.
        """
        try:
            newest = self._head_without_pointer()
        except (HistoryForkedError, ManifestInvalidError):
            if last or self._is_still_at(pointer, snapshot_id):
                raise
            return None
        return head_at(pointer, newest) if last or self._is_still_at(pointer, snapshot_id) else None

    def _before(self, intent: EncodedManifest[M], parent: str) -> M:
        """The parent of an unpublished snapshot. Only a copy has the pointer before the parent is there."""
        found = self.manifest(parent)
        if found is None:
            raise NotFoundError(
                f"{self.name} in {self.store.url} is not complete yet: it is being copied up to snapshot "
                f"{intent.manifest.snapshot_id}; if that was interrupted, run lode copy again"
            )
        return found

    def _refuse_other_layout(self, snapshot_id: str) -> None:
        """Raise if the snapshot exists under another layout: then no writer died, this layout is wrong."""
        for paths in self.others:
            if self.store.exists(paths.manifest(snapshot_id)) or self.store.exists(paths.intent(snapshot_id)):
                raise self._wrong_layout(paths)

    def _head_without_pointer(self) -> M | None:
        if not self.others:
            return self.head_by_links()
        # One listing for all layouts that share the pointer, up to the first manifest.
        places = [self.paths, *self.others]
        prefix = commonprefix([f"{paths.manifests}/" for paths in places])
        was_dropped = False
        for entry in self.store.list(prefix):
            for paths in places:
                snapshot_id = paths.snapshot_of(entry.path)
                # A drop stays under the layout of what it dropped. What came next may have another.
                if snapshot_id is None or snapshot_id.endswith(DROP_SUFFIX):
                    was_dropped = was_dropped or snapshot_id is not None
                    continue
                if paths is not self.paths:
                    raise self._wrong_layout(paths)
                return self.head_by_links()
        return self.head_by_links() if was_dropped else None

    def _wrong_layout(self, paths: ChainPaths) -> ComponentMismatchError:
        return ComponentMismatchError(
            f"{self.name} in {self.store.url} has its snapshots in {paths.manifests!r} and is opened with a "
            f"layout for {self.paths.manifests!r}: leave the layout out, or give the one it has"
        )

    def empty(self) -> NoSnapshotsError:
        """The error for a history without snapshots."""
        return NoSnapshotsError(f"{self.name} in {self.store.url} has no snapshots yet: write one first")

    def head_by_links(self) -> M | None:
        """Find the head without a pointer: the one snapshot that is no parent. Lists the store."""
        manifests = {found.snapshot_id: found for found in self.listed()}
        parents = {found.parent_snapshot_id for found in manifests.values()}
        # A drop removes the manifests before it. Those that it has left need not form a line.
        after = max(
            (found.sequence or 0 for found in manifests.values() if found.operation == DROP), default=0
        )
        heads = sorted(id for id in manifests.keys() - parents if (manifests[id].sequence or after) >= after)
        if len(heads) > 1:
            raise HistoryForkedError(
                f"{self.name} in {self.store.url} has {len(heads)} heads ({', '.join(heads)}): "
                "a writer outside this protocol raced; keep one and move the other's manifest away",
                heads,
            )
        if manifests and not heads:
            raise self.damaged(min(manifests), "is its own ancestor: the parents form a cycle")
        return manifests[heads[0]] if heads else None

    def listed(self) -> Iterator[M]:
        """Every published manifest there is, in no particular order of history."""
        for entry in self.store.list(f"{self.paths.manifests}/"):
            snapshot_id = self.paths.snapshot_of(entry.path)
            if snapshot_id is not None:
                found = self.manifest(snapshot_id)
                if found is not None:
                    yield found

    def back(self, start: M | None) -> Iterator[M]:
        """Walk from ``start`` to the first snapshot along the parent links, one read a snapshot."""
        for manifest in self._back(start):
            if manifest.operation != DROP:
                yield manifest

    def _back(self, start: M | None) -> Iterator[M]:
        """The same walk, and the drop before the first snapshot if its place is not recorded."""
        links = Links(self)
        current = start
        while current is not None:
            links.follow(current)
            yield current
            parent = current.parent_snapshot_id
            if current.operation == DROP or begins_with(current):
                return
            current = self.ancestor(parent, current.snapshot_id) if parent is not None else None
        links.end()

    def ancestor(self, snapshot_id: str, child: str | None) -> M:
        """The snapshot that ``child`` names as its parent."""
        found = self.manifest(snapshot_id)
        if found is None:
            raise self.damaged(snapshot_id, f"is missing, and snapshot {child} follows it")
        return found

    def sequence_of(self, manifest: M | None) -> int:
        """The snapshot's position in history, the root being 1; 0 for no snapshot."""
        numbered, after = self._numbered(manifest)
        sequence = after + ((numbered.sequence or 0) if numbered is not None else 0)
        if sequence >= MAX_SEQUENCE:
            assert manifest is not None
            raise self.damaged(
                manifest.snapshot_id, f"has the sequence {sequence}, after which there is none"
            )
        return sequence

    def length_at(self, manifest: M) -> int:
        """The number of snapshots up to this one. The numbering goes on after a drop."""
        numbered, _ = self._numbered(manifest)
        return self.sequence_of(manifest) - (numbered.begins if numbered is not None else 1) + 1

    def begins_after(self, head: Head[M]) -> int:
        """The sequence of the first snapshot of the history that the next commit is part of."""
        numbered, _ = self._numbered(head.parent)
        if numbered is None or numbered.sequence is None:
            return 1
        return numbered.sequence + 1 if numbered.operation == DROP else numbered.begins

    def _numbered(self, manifest: M | None) -> tuple[M | None, int]:
        """The nearest snapshot up to this one that has its sequence, and how many come after it.

        Manifests of the Go implementation carry none: they are counted along the parent links.
        """
        if manifest is None or manifest.sequence is not None:
            return manifest, 0
        after = 0
        for step in self._back(manifest):
            if step.sequence is not None:
                return step, after
            after += 1
        return None, after

    def damaged(self, snapshot_id: str, complaint: str) -> ManifestInvalidError:
        """The error for manifests that are valid one by one and do not form a history."""
        return ManifestInvalidError(
            f"{self.name} in {self.store.url}: snapshot {shortened(snapshot_id)} {complaint}; "
            f"run lode verify, then restore the manifest ({GUIDE}#a-damaged-manifest)"
        )


class Links(Generic[M]):
    """Checks that the snapshots of a walk form one line, so that every walk ends.

    Sequences count down to 1. Snapshots of the Go implementation carry none; of these no id may come twice.
    """

    __slots__ = ("_chain", "_unnumbered", "expected", "newer")

    def __init__(self, chain: Chain[M]) -> None:
        self._chain = chain
        self._unnumbered: set[str] = set()
        # The snapshot before, and the sequence that the next one must have, once that is known.
        self.newer: str | None = None
        self.expected: int | None = None

    def follow(self, manifest: M) -> None:
        """Check the next older snapshot of the walk."""
        self.step(manifest.snapshot_id, manifest.sequence, 1)

    def step(self, newest: str, last: int | None, count: int) -> None:
        """Check the next ``count`` older snapshots, of which ``newest`` has the sequence ``last``."""
        if last is None:
            if newest in self._unnumbered:
                raise self._chain.damaged(newest, "is its own ancestor: the parents form a cycle")
            self._unnumbered.add(newest)
            last = self.expected
        elif self.expected not in (None, last):
            raise self._chain.damaged(
                newest,
                f"has the sequence {last}, but is the parent of {self.newer}: expected {self.expected}",
            )
        if last is not None and last < count:
            raise self._chain.damaged(
                newest, f"is the parent of {self.newer}, which is the first by its sequence"
            )
        self.expected = None if last is None else last - count
        self.newer = newest

    def end(self) -> None:
        """Check that the walk may end here: nothing comes before the sequence 1."""
        if self.newer is not None and self.expected not in (None, 0):
            raise self._chain.damaged(
                self.newer, f"names no parent, but by its sequence {self.expected} snapshots come before it"
            )


def is_dropped(chain: Chain[Any], others: Sequence[Chain[Any]] = ()) -> bool:
    """Whether a dataset or volume was dropped, and nothing was written since. One read if it was not.

    Args:
        chain: Its history.
        others: The same under other layouts that share the pointer.
    """
    try:
        pointer = chain.pointer()
        if pointer is None or not pointer.endswith(DROP_SUFFIX.encode()):
            return False
        snapshot_id = chain.named_by(pointer)
        found = (each.manifest(snapshot_id) for each in (chain, *others))
        return any(newest is not None and newest.operation == DROP for newest in found)
    except (DataError, StoreError):
        return False  # damaged: opening it raises the error


def dataset_chain(store: Store, dataset_id: str, layout: Layout) -> Chain[Manifest]:
    """The history of a dataset on a store, under one layout."""

    def partition_of(path: str) -> str:
        return layout.partition_of(dataset_id, path)

    def copies(placed: EncodedManifest[Manifest]) -> Mapping[str, bytes]:
        if not layout.keys:
            return {}
        partitions = sorted({partition_of(file.path) for file in placed.manifest.files})
        paths = layout.copies(dataset_id, placed.manifest.snapshot_id, partitions)
        return PartitionCopies(placed.data, dict(zip(paths, partitions, strict=True)), partition_of)

    own = layout.chain(dataset_id)
    shared = (DefaultLayout().chain(dataset_id), ANY_KEYS.chain(dataset_id))
    others = tuple(paths for paths in shared if paths.root == own.root and paths != own)
    name = f"dataset {dataset_id!r}"
    return Chain(store, own, decode_whole_manifest, copies, name, dataset_id, others, has_segments=True)


def chain_of_volume(store: Store, volume_id: str) -> Chain[VolumeManifest]:
    """The history of a volume on a store."""
    paths = volume_chain(volume_id)
    return Chain(store, paths, decode_volume_manifest, lambda _: {}, f"volume {volume_id!r}", volume_id)
