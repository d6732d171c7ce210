"""Intents: complete manifests that are put before the swap, so that any process can publish the snapshot."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from lode.errors import (
    NotFoundError,
    OutcomeUnknownError,
    PathExistsError,
    StoreError,
    TransactionClosedError,
)
from lode.read.resolve import AnyManifest
from lode.write.file import holds
from lode.write.publish import MAX_UNANSWERED

if TYPE_CHECKING:
    from lode.read.resolve import Chain, EncodedManifest
    from lode.write.draft import Draft
    from lode.write.publish import Publisher

# Takes the place of the intent of an id that must never be committed.
TOMBSTONE: Final = b'{"swept": true}'

M = TypeVar("M", bound=AnyManifest)


class Intents(Generic[M]):
    """Puts and replaces the intents of one history."""

    def __init__(self, chain: Chain[M], publisher: Publisher[M]) -> None:
        self._chain = chain
        self._store = chain.store
        self._publisher = publisher

    def declare(self, draft: Draft[M], placed: EncodedManifest[M]) -> None:
        """Put the draft's intent, or replace the one put for an earlier base.

        Raises:
            TransactionClosedError: a sweep has fenced the id, or it is committed already.
        """
        path = self._chain.paths.intent(draft.snapshot_id)
        if draft.declared is None:
            try:
                # Not synced: nothing refers to it before the swap, and soon after the swap the manifest is
                # put and synced. If a power cut removes it in between, the head is found through the parent
                # links of the manifests.
                volatile = self._publisher.volatile
                (volatile.put_volatile if volatile else self._store.put)(path, placed.intent)
            except PathExistsError:
                # With a new id it can be our own: the network may deliver a request twice.
                if not draft.fresh or not holds(self._store, path, placed.intent):
                    raise self._swept(draft.snapshot_id) from None
        else:
            self._replace(draft.snapshot_id, path, draft.declared.intent, placed.intent)
        draft.declared = placed
        if not draft.fresh:
            self._check_unused(draft.snapshot_id)
            draft.fresh = True

    def declare_copy(self, placed: EncodedManifest[M]) -> None:
        """Put the intent of a copied snapshot, whose id and content are fixed.

        Every copy of the snapshot puts the same intent, so an existing one is equally good.

        Raises:
            TransactionClosedError: a sweep has fenced the id.
        """
        snapshot_id = placed.manifest.snapshot_id
        path = self._chain.paths.intent(snapshot_id)
        created = self._publisher.create(path, placed.data)
        if not created and self._store.get(path).strip() != placed.data.strip():
            raise TransactionClosedError(
                f"{self._chain.name}: snapshot {snapshot_id} was swept as abandoned before it was committed, "
                f"so its id cannot be used: remove {path} when no sweep is running, then copy again, or copy "
                "under another name"
            )

    def used(self, snapshot_id: str) -> TransactionClosedError:
        """The error for an id that is committed already."""
        return TransactionClosedError(
            f"{self._chain.name}: snapshot {snapshot_id} is committed already and an id is used once: choose "
            "another snapshot_id, or leave it out"
        )

    def _check_unused(self, snapshot_id: str) -> None:
        """Refuse an id that is committed, once our intent exists.

        Sweep removes an intent only after its manifest is published. So if an earlier commit of this id had
        an intent, either our put found it, or the manifest exists now.
        """
        if self._store.exists(self._chain.paths.manifest(snapshot_id)):
            with suppress(StoreError):
                self._store.delete(self._chain.paths.intent(snapshot_id))
            raise self.used(snapshot_id)

    def _replace(self, snapshot_id: str, path: str, earlier: bytes, data: bytes) -> None:
        """Replace our intent conditionally, so that a delayed earlier request cannot undo this."""
        swapping = self._publisher.swapping
        if swapping is None:
            self._store.delete(path)
            self._store.put(path, data)
            return
        for _ in range(MAX_UNANSWERED):
            try:
                if swapping.compare_and_swap(path, earlier, data):
                    return
            except OutcomeUnknownError:
                pass
            try:
                found = self._store.get(path).strip()
            except NotFoundError:
                raise self._swept(snapshot_id) from None
            if found == data.strip():
                return
            if found != earlier.strip():
                raise self._swept(snapshot_id)
        raise StoreError(f"{path} could not be replaced: the store does not answer; nothing was committed")

    def _swept(self, snapshot_id: str) -> TransactionClosedError:
        return TransactionClosedError(
            f"{self._chain.name}: another process holds the intent of snapshot {snapshot_id}: it was swept "
            "as abandoned, or is committed elsewhere; it did not land from here, stage it anew"
        )
