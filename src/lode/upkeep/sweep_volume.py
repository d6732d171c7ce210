"""Sweep a volume.

A block is staged under no snapshot's id, so there is no intent to fence. Instead a sweep is a commit. It puts
a list of the blocks, commits a snapshot without new blocks that refers to the list, and then removes the
listed blocks that this snapshot does not contain. The blocks of an earlier commit are part of that snapshot.
A later commit finds the list through its parent and is refused. See ``docs/design/commit.md``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lode.errors import DataError, NotFoundError
from lode.format.ids import SnapshotIds
from lode.format.manifest import DROP
from lode.format.volume import VolumeManifest, is_block
from lode.read.manifests import read_manifests
from lode.upkeep.leftovers import Leftover, Pointer, Sweep, leftover, sweep_slots, sweep_temporaries
from lode.write.blocks import VolumeDraft
from lode.write.commit import Committer
from lode.write.retry import Retry
from lode.write.swept import SweptBlocks

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from lode.read.resolve import EncodedManifest, Head
    from lode.runtime import Runtime
    from lode.store.protocol import ObjectInfo
    from lode.volume import Volume


class VolumeSweeper:
    """Sweeps one volume once."""

    def __init__(
        self, volume: Volume, progress: Callable[[int, int | None], None] | None, runtime: Runtime
    ) -> None:
        self._volume = volume
        self._store = volume.store
        self._chain = volume.chain
        self._progress = progress
        self._runtime = runtime
        self._lists = SweptBlocks(volume.store, volume.id)
        self._blocks: dict[str, ObjectInfo] = {}
        self._intents: dict[str, ObjectInfo] = {}
        self._slots: list[ObjectInfo] = []
        self._manifests: dict[str, str] = {}
        self._parents: dict[str, str | None] = {}
        self._spared: dict[str, str] = {}

    def run(self, limit: datetime, *, dry_run: bool) -> Sweep:
        self._list()
        published = [self._intents[id] for id in self._intents if id in self._manifests]
        leftovers = [
            leftover(entry, "the intent of a snapshot that is published")
            for entry in published
            if entry.modified <= limit
        ]
        old = {path for path, entry in self._blocks.items() if entry.modified <= limit}
        candidates = self._candidates(old, limit) if old else set()
        if candidates and not dry_run:
            candidates -= _paths(self._condemn(candidates))
        abandoned = [self._blocks[path] for path in sorted(candidates)]
        leftovers += [leftover(entry, "a block that was never committed") for entry in abandoned]
        if not dry_run:
            self._delete(leftovers)
        leftovers += self._sweep_slots(limit, dry_run=dry_run)
        leftovers += sweep_temporaries(self._store, self._chain.paths.root, limit, dry_run=dry_run)
        return Sweep(tuple(leftovers), not dry_run, self._spared)

    def _sweep_slots(self, limit: datetime, *, dry_run: bool) -> list[Leftover]:
        value = self._chain.pointer() if self._slots else None
        pointer = Pointer(value, firm=value is not None)
        return sweep_slots(self._store, self._slots, pointer, limit, dry_run=dry_run)

    def _list(self) -> None:
        paths = self._chain.paths
        for entry in self._store.list(f"{paths.root}/"):
            published = paths.snapshot_of(entry.path)
            intended = paths.intended_at(entry.path)
            if published is not None:
                self._manifests[published] = entry.path
            elif intended is not None:
                self._intents[intended] = entry
            elif is_block(self._volume.id, entry.path):
                self._blocks[entry.path] = entry
            elif entry.path.startswith(paths.waiting):
                self._slots.append(entry)

    # -- judging -------------------------------------------------------------------------------

    def _candidates(self, old: set[str], limit: datetime) -> set[str]:
        """The old blocks that no manifest names; empty if the history is damaged."""
        unnamed = old - self._named()
        if self._spared or not unnamed:
            return set()
        intents = {id: self._chain.intent(id) for id in sorted(self._intents.keys() - self._manifests.keys())}
        try:
            head = self._chain.resolve()
            reason = self._why_unsafe(head)
        except (DataError, NotFoundError) as error:
            reason = f"the head cannot be found ({error})"
        if reason is not None:
            self._spared[self._chain.paths.root] = f"{reason}, so no block is removed"
            return set()
        unnamed -= _paths(head.pending.manifest if head.pending else head.manifest)
        for id, intent in intents.items():
            if intent is not None and self._may_be_committed(id, intent, head, limit):
                for path in _paths(intent.manifest) & unnamed:
                    self._spared[path] = f"snapshot {id} may still be committed with it"
        return unnamed - self._spared.keys()

    def _named(self) -> set[str]:
        """The blocks that any manifest names. An unreadable one may name any block, so it spares all."""
        named: set[str] = set()
        paths = self._manifests.values()
        for path, manifest in read_manifests(self._store, paths, self._chain.decode, self._runtime):
            if isinstance(manifest, DataError):
                self._spared[path] = f"it cannot be read, so no block is removed: {manifest}"
                continue
            named |= _paths(manifest)
            # A drop removes the snapshots before it: history begins there.
            parent = None if manifest.operation == DROP else manifest.parent_snapshot_id
            self._parents[path.split("/")[-2]] = parent
            if self._manifests.get(manifest.snapshot_id) != path or manifest.volume_id != self._volume.id:
                whose = f"snapshot {manifest.snapshot_id} of volume {manifest.volume_id!r}"
                self._spared[path] = f"it is the manifest of {whose}, so no block is removed"
        return named

    def _why_unsafe(self, head: Head[VolumeManifest]) -> str | None:
        """Why the sweep must not commit now; None if history is linear and ends at the head."""
        if not self._manifests:
            return "the volume has no snapshot yet"
        newest = head.pending.manifest if head.pending is not None else head.manifest
        if head.pointer is None or newest is None or head.pointer != newest.snapshot_id.encode():
            return "the pointer is missing or names nothing (the next commit restores it)"
        # Walk over the commits since the listing, from the head to the newest snapshot that was listed.
        listed: VolumeManifest | None = newest
        since: set[str] = set()
        while listed is not None and listed.snapshot_id not in (self._parents.keys() | since):
            since.add(listed.snapshot_id)
            parent = listed.parent_snapshot_id
            listed = self._chain.require(parent) if parent else None
        parents = list(self._parents.values())
        heads = self._parents.keys() - set(parents)
        is_line = len(set(parents)) == len(parents) and None in parents
        is_whole = all(parent is None or parent in self._parents for parent in parents)
        if listed is None or heads != {listed.snapshot_id} or not (is_line and is_whole):
            return "history is not one line that ends at the pointer (see lode verify)"
        return None

    def _may_be_committed(
        self, id: str, intent: EncodedManifest[VolumeManifest], head: Head[VolumeManifest], limit: datetime
    ) -> bool:
        """Whether the writer of an intent may still be running, by the age and content of the intent."""
        if self._intents[id].modified > limit:
            return True
        return Pointer(head.pointer, firm=True).may_win(intent) is not None

    # -- removing ------------------------------------------------------------------------------

    def _condemn(self, candidates: set[str]) -> VolumeManifest:
        """Make sure that none of these blocks is committed from now on. Returns a snapshot after that."""
        committer = Committer(self._chain, self._runtime, Retry())
        base = committer.settle()
        assert base.manifest is not None, "history has snapshots"
        lists = self._lists.lists_of(base.manifest)
        try:
            known = self._lists.paths(lists)
        except NotFoundError:  # a list was removed by hand
            known = frozenset()
        # After a manifest of the Go implementation, a listed sweep may not have committed.
        if candidates <= known and base.manifest.sequence is not None:
            return base.manifest
        draft = VolumeDraft(
            SnapshotIds(self._runtime.now_ns, self._runtime.random_bits).next(),
            base,
            writer="sweep",
            volume_id=self._volume.id,
            total_length=base.manifest.total_length,
            blocks=(),
            metadata={},
            checksum_algorithm=None,
            now_ns=self._runtime.now_ns,
            swept=self._lists,
            condemned=self._lists.store(known | candidates),
            folded=frozenset(lists),
        )
        return committer.commit(draft).manifest

    def _delete(self, leftovers: list[Leftover]) -> None:
        for number, item in enumerate(leftovers, 1):
            self._store.delete(item.path)
            if self._progress is not None:
                self._progress(number, len(leftovers))


def _paths(manifest: VolumeManifest | None) -> set[str]:
    return {block.path for block in manifest.blocks} if manifest else set()
