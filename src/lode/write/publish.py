"""Publish a snapshot whose place in history is decided: partition copies, idempotency key, manifest."""

from __future__ import annotations

import logging
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import msgspec

from lode.errors import (
    DataError,
    ManifestInvalidError,
    NotFoundError,
    OutcomeUnknownError,
    PathExistsError,
    StoreError,
)
from lode.format.ids import is_id
from lode.read.resolve import AnyManifest
from lode.read.source import get_bounded
from lode.runtime import one_by_one
from lode.store.protocol import SupportsCompareAndSwap, SupportsLink, SupportsVolatilePut, is_nearby

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from lode.read.resolve import Chain, EncodedManifest
    from lode.runtime import Runtime

logger = logging.getLogger("lode.commit")

# Maximum number of times that a request without an answer is sent while nothing changes on the store.
MAX_UNANSWERED: Final = 4

# The object of an idempotency key is no larger.
MAX_KEY_BYTES: Final = 1 << 20

# What a small write takes before one was measured.
FIRST_PUT_SECONDS: Final = 0.03

M = TypeVar("M", bound=AnyManifest)


def _call(step: Callable[[], object]) -> None:
    step()


class KeyRecord(msgspec.Struct, frozen=True):
    """The content of an idempotency key's object."""

    writer: str
    key: str
    snapshot_id: str


def snapshot_of_key(record: bytes, idempotency: tuple[str, str]) -> str | None:
    """The snapshot that the object of an idempotency key names; None if it is damaged or of another key."""
    try:
        known = msgspec.json.decode(record, type=KeyRecord)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    if (known.writer, known.key) != idempotency or not is_id(known.snapshot_id):
        return None
    return known.snapshot_id


class Publisher(Generic[M]):
    """Publishes snapshots of one history. Several processes may publish the same snapshot at once."""

    def __init__(self, chain: Chain[M], runtime: Runtime) -> None:
        self._chain = chain
        self._store = chain.store
        self._runtime = runtime
        # The last snapshot whose manifest is known to be synced to disk.
        self._synced: str | None = None
        # How long a small write takes.
        self.put_seconds = FIRST_PUT_SECONDS

    # Capabilities are checked lazily. A process that only reads does not pay for the check.

    @cached_property
    def nearby(self) -> bool:
        """Whether a request to the store takes less time than passing it to a thread."""
        return is_nearby(self._store)

    @cached_property
    def swapping(self) -> SupportsCompareAndSwap | None:
        """The store, if it can compare and swap."""
        return self._store if isinstance(self._store, SupportsCompareAndSwap) else None

    @cached_property
    def volatile(self) -> SupportsVolatilePut | None:
        """The store, if it can put an object without syncing it."""
        return self._store if isinstance(self._store, SupportsVolatilePut) else None

    @cached_property
    def _linking(self) -> SupportsLink | None:
        return self._store if isinstance(self._store, SupportsLink) else None

    def publish(self, placed: EncodedManifest[M]) -> None:
        """Make a snapshot visible, by the bytes of its intent, and with it the other members of its group.

        Nothing is built on a member before its leader is visible, so only the leader's manifest has to wait.
        """
        members = (*placed.before, placed)
        steps = [
            step for member in members for step in self._before_manifest(member, linked=len(members) == 1)
        ]
        steps += [partial(self._put_manifest, member) for member in placed.before]
        each = one_by_one if self.nearby else self._runtime.each_small
        each(_call, steps)
        self._put_manifest(placed)

    def _before_manifest(self, placed: EncodedManifest[M], *, linked: bool) -> Iterator[Callable[[], object]]:
        """What comes before the manifest of one snapshot: the copies of its partitions, and its key.

        Args:
            placed: The snapshot.
            linked: Whether its own intent holds exactly its manifest, so that copies can be links to it.
        """
        copies = self._chain.copies(placed)
        for path in copies:
            yield partial(self._copy, placed, path, copies, linked=linked)
        if placed.manifest.idempotency is not None:
            yield partial(self.put_key, placed.manifest, placed.manifest.idempotency)

    def _put_manifest(self, placed: EncodedManifest[M]) -> None:
        snapshot_id = placed.manifest.snapshot_id
        if not self.create(self._chain.paths.manifest(snapshot_id), placed.data):
            self._check_existing(placed)
        self._chain.remember(snapshot_id, placed.data)
        self._synced = snapshot_id

    def put_key(self, manifest: M, idempotency: tuple[str, str]) -> None:
        """Put the object of a snapshot's key, in the place of one that names no committed snapshot.

        A power cut can leave such a key: it is synced, and then its manifest is lost. The commit of this
        snapshot has looked in history and found no other under the key.
        """
        path = self._chain.paths.key(*idempotency, manifest.begins)
        record = msgspec.json.encode(KeyRecord(*idempotency, manifest.snapshot_id))
        if self.create(path, record):
            return
        for _ in range(MAX_UNANSWERED):
            try:
                known = get_bounded(self._store, path, MAX_KEY_BYTES)
            except ManifestInvalidError:
                self._store.delete(path)  # far too large to be a key, or to be compared
                if self.create(path, record):
                    return
                continue
            if known.strip() == record:
                return
            named = snapshot_of_key(known, idempotency)
            other = None if named is None else self._chain.manifest(named)
            if other is not None and other.idempotency == idempotency:
                return
            if self._replace(path, known, record):
                return
        raise StoreError(
            f"{path} could not be replaced: the store does not answer, or it changes all the time"
        )

    def _replace(self, path: str, known: bytes, data: bytes) -> bool:
        """Replace an object that has this content. False if it has another, or there was no answer."""
        if self.swapping is None:
            self._store.delete(path)
            self._store.put(path, data)
            return True
        try:
            return self.swapping.compare_and_swap(path, known, data)
        except OutcomeUnknownError:
            return False

    def create(self, path: str, data: bytes) -> bool:
        """Put the object. False if it exists: from another publisher, or from a try whose answer was lost."""
        for remaining in reversed(range(MAX_UNANSWERED)):
            try:
                began = self._runtime.monotonic()
                self._store.put(path, data)
                self.put_seconds += (self._runtime.monotonic() - began - self.put_seconds) / 4
                return True
            except PathExistsError:
                return False
            except OutcomeUnknownError:
                if not remaining:
                    raise
        return False

    def sync(self, snapshot_id: str | None) -> None:
        """Sync the manifest of another process to disk, before a commit is built on it.

        Its writer may not have synced it yet. Without this, a power cut could remove the parent of a snapshot
        that this process has acknowledged.
        """
        if self.volatile is not None and snapshot_id not in (None, self._synced):
            self.volatile.sync(self._chain.paths.manifest(snapshot_id or ""))
            self._synced = snapshot_id

    def _check_existing(self, placed: EncodedManifest[M]) -> None:
        """Check that an existing manifest is the one that was declared."""
        path = self._chain.paths.manifest(placed.manifest.snapshot_id)
        # Version 0.1 publishes the intent of a leader as it is, with its group.
        if self._store.get(path).strip() not in (placed.data.strip(), placed.intent.strip()):
            raise DataError(
                f"{path} is another manifest than the one its intent declares: two snapshots were committed "
                "under one id, or the manifest is damaged; compare it with the intent beside it"
            )

    def _copy(
        self, placed: EncodedManifest[M], path: str, copies: Mapping[str, bytes], *, linked: bool
    ) -> None:
        """Put a partition's copy of the manifest: a link to the intent where the store supports links.

        A link has all files of the snapshot, not only those of its partition. It takes no room, and readers
        accept both. An intent in force never changes. The manifest itself is never a link: if one of the two
        is damaged, the other can repair it.
        """
        if linked and self._linking is not None:
            try:
                self._linking.link(self._chain.paths.intent(placed.manifest.snapshot_id), path)
                return
            except PathExistsError:
                return
            except (StoreError, NotFoundError):
                logger.debug("%s: no link to an intent at %s", self._chain.name, path)
        self.create(path, copies[path])
