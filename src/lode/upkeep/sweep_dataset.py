"""Sweep a dataset.

Before the files of an uncommitted snapshot are removed, the snapshot is fenced: its intent is replaced by a
tombstone, conditionally. If its writer continues later, it finds the tombstone and its commit is refused. So
no commit can name files that were removed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from lode.errors import DataError, InvalidOptionError, ManifestInvalidError, NotFoundError, PathExistsError
from lode.format.ids import HISTORY_FOLDERS, LAKE_FOLDERS, RESERVED_IDS, is_id
from lode.format.manifest import MAX_MANIFEST_BYTES, Manifest, decode_manifest
from lode.format.paths import MANIFEST, DefaultLayout, FlatLayout, Layout
from lode.read.manifests import read_pointer
from lode.read.resolve import ANY_KEYS, EncodedManifest, decode_intent
from lode.read.source import get_bounded
from lode.store.protocol import SupportsCompareAndSwap
from lode.upkeep.leftovers import Errand, Leftover, Pointer, Sweep, leftover, sweep_slots, sweep_temporaries
from lode.upkeep.published import PublishedManifests
from lode.upkeep.share import ALL, Share
from lode.write.intent import TOMBSTONE

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from lode.format.paths import ChainPaths
    from lode.runtime import Runtime
    from lode.store.protocol import ObjectInfo, Store
    from lode.upkeep.leftovers import Remover

# Listed objects between two calls of ``progress``.
_PROGRESS_STEP: Final = 1_000
# Snapshots whose leftovers are removed between two of these calls.
_BATCH: Final = 1_000
# In a flat layout these are other folders of a lake, or parts of a dataset if its root was opened as a store.
_RESERVED_FLAT_IDS: Final = LAKE_FOLDERS | HISTORY_FOLDERS

# The object at an intent's path: none, a manifest, or other bytes, such as a tombstone.
_Intent: TypeAlias = EncodedManifest[Manifest] | bytes | None


def is_reserved(dataset_id: str, layout: Layout | None) -> bool:
    """Whether this id's root contains objects of other datasets. File systems may ignore case."""
    name = dataset_id.casefold()
    return name in RESERVED_IDS or (isinstance(layout, FlatLayout) and name in _RESERVED_FLAT_IDS)


@dataclass(slots=True)
class _StagedObjects:
    """The objects that writers with this layout stage below a dataset's root, by snapshot."""

    layout: Layout
    paths: ChainPaths
    share: Share = ALL
    staged: dict[str, list[ObjectInfo]] = field(default_factory=dict)
    intents: dict[str, ObjectInfo] = field(default_factory=dict)

    @property
    def snapshots(self) -> set[str]:
        return self.staged.keys() | self.intents.keys()

    def take(self, dataset_id: str, entry: ObjectInfo) -> bool:
        staged_for = self.layout.staged(dataset_id, entry.path)
        if staged_for is not None:
            if self.share.has(staged_for):
                self.staged.setdefault(staged_for, []).append(entry)
            return True
        intended = self.paths.intended_at(entry.path)
        if intended is not None and self.share.has(intended):
            self.intents[intended] = entry
        return intended is not None


class DatasetSweeper:
    """Sweeps one dataset once."""

    def __init__(
        self,
        store: Store,
        dataset_id: str,
        layout: Layout | None,
        progress: Callable[[int, int | None], None] | None,
        runtime: Runtime,
        remover: Remover | None = None,
        share: Share = ALL,
    ) -> None:
        # Only the snapshots in this share are swept. Whatever has no snapshot is in the first one.
        self._share = share
        self._store = store
        self._dataset_id = dataset_id
        self._layout = layout
        self._progress = progress
        self._remover = remover or (lambda errands: [errand.run(store) for errand in errands])
        self._published = PublishedManifests(store, dataset_id, runtime)
        # Drafts that wait for a leader, or waited.
        self._slots: list[ObjectInfo] = []

    def run(self, limit: datetime, *, dry_run: bool) -> Sweep:
        # The order is what makes this safe. Files are listed first. Intents are read before the pointer, and
        # the pointer before the last look for a manifest. A snapshot that won before the pointer was read is
        # named by it or has its manifest. One that had not won by then has an intent that expects the current
        # pointer, or can no longer win with it.
        objects = self._list()
        paths = objects.paths
        published = self._published
        if self._share != ALL:
            published.wants = lambda path: self._share.has(
                objects.layout.staged(self._dataset_id, path) or ""
            )
        published.read_all()
        intents = {id: self._intent(paths, id) for id in sorted(objects.snapshots) if id not in published}
        for intent in intents.values():
            if isinstance(intent, EncodedManifest):
                published.mention(intent.follows, intent.manifest.snapshot_id)
        pointer = self._pointer(paths)

        leftovers: dict[str, list[Leftover]] = {}
        spared = dict(published.damaged)
        for snapshot_id in sorted(objects.snapshots):
            files = [file for file in objects.staged.get(snapshot_id, []) if file.path not in published.files]
            intent_object = objects.intents.get(snapshot_id)
            if snapshot_id in published:
                reason = self._why_spare_published(paths, snapshot_id, files)
                found = [] if reason else self._of_published(files, intent_object, limit)
            elif not files and intents[snapshot_id] == TOMBSTONE:
                continue  # a tombstone is never removed, and is not reported
            else:
                intent = intents[snapshot_id]
                reason = _why_spare_young(files, intent_object, limit)
                reason = reason or self._why_spare(snapshot_id, intent, pointer)
                if reason is None and not dry_run and not self._fence(paths, snapshot_id, intent):
                    reason = "its writer continued"
                why = f"staged for {snapshot_id}, which was never committed"
                found = [leftover(file, why) for file in files]
            if reason is not None:
                spared[snapshot_id] = reason
                continue
            if found:
                leftovers[snapshot_id] = found
        for snapshot_id in self._remove(paths, leftovers, dry_run=dry_run):
            spared[snapshot_id] = "it was published just now"
            del leftovers[snapshot_id]
        removed = [item for found in leftovers.values() for item in found]
        if not self._share.number:
            removed += sweep_slots(self._store, self._slots, pointer, limit, dry_run=dry_run)
            removed += sweep_temporaries(self._store, paths.root, limit, dry_run=dry_run)
        return Sweep(tuple(removed), not dry_run, spared)

    def _remove(self, paths: ChainPaths, leftovers: dict[str, list[Leftover]], *, dry_run: bool) -> list[str]:
        """Remove leftovers, and return the snapshots whose manifest has appeared: theirs stay.

        A writer outside this protocol ignores tombstones. So its manifest is looked for once more, right
        before its files are removed.
        """
        errands = {
            id: Errand(
                () if dry_run else tuple(item.path for item in found),
                None if id in self._published else paths.manifest(id),
            )
            for id, found in leftovers.items()
        }
        spared, done = [], 0
        for start in range(0, len(errands), _BATCH):
            batch = list(errands)[start : start + _BATCH]
            results = self._remover([errands[id] for id in batch])
            spared += [id for id, removed in zip(batch, results, strict=True) if not removed]
            done += sum(len(leftovers[id]) for id in batch)
            self._advance(done)
        return spared

    # -- listing -------------------------------------------------------------------------------

    def _list(self) -> _StagedObjects:
        """List the dataset's root. Without a given layout, the objects found there decide it."""
        layouts: list[Layout] = [self._layout] if self._layout else [DefaultLayout(), ANY_KEYS, *self._flat()]
        candidates = [
            _StagedObjects(layout, layout.chain(self._dataset_id), self._share) for layout in layouts
        ]
        for root in dict.fromkeys(each.paths.root for each in candidates):
            here = [each for each in candidates if each.paths.root == root]
            self._list_root(root, here)
            if self._published.manifests or self._published.copies:
                return self._with_history(here)
        if self._layout is not None:
            self._refuse_history_elsewhere(candidates[0])
        return next((each for each in candidates if each.snapshots), candidates[0])

    def _flat(self) -> list[Layout]:
        return [] if is_reserved(self._dataset_id, FlatLayout()) else [FlatLayout()]

    def _list_root(self, root: str, candidates: list[_StagedObjects]) -> None:
        for number, entry in enumerate(self._store.list(f"{root}/"), 1):
            if not number % _PROGRESS_STEP:
                self._advance(number)
            if entry.path.endswith(f"/{MANIFEST}"):
                # Any object of this name counts, so no layout can make committed files look abandoned.
                self._published.add_manifest(root, entry.path)
            elif entry.path.startswith(f"{root}/waiting/"):
                self._slots.append(entry)
            elif not any(each.take(self._dataset_id, entry) for each in candidates):
                self._published.add_segment(root, entry.path)

    def _with_history(self, candidates: list[_StagedObjects]) -> _StagedObjects:
        """The layout that has manifests; if there are several, the one of the pointer's snapshot."""
        published = self._published
        everywhere = [path for places in published.manifests.values() for path in places]
        everywhere += [path for places in published.copies.values() for path in places]
        mine = [
            {place.snapshot_id for place in map(each.layout.place, everywhere) if place is not None}
            for each in candidates
        ]
        with_history = [each for each, ids in zip(candidates, mine, strict=True) if ids]
        if len(with_history) > 1:
            pointer = read_pointer(self._store, candidates[0].paths) or b""
            for each, ids in zip(candidates, mine, strict=True):
                if pointer.decode("utf-8", "replace") in ids:
                    return each
        if with_history:
            return with_history[0]
        if self._layout is not None:
            raise self._elsewhere(everywhere[0])
        return next((each for each in candidates if each.snapshots), candidates[0])

    def _refuse_history_elsewhere(self, looked: _StagedObjects) -> None:
        """Refuse a layout that has no objects if another layout has a history."""
        for layout in (DefaultLayout(), *self._flat()):
            root = layout.chain(self._dataset_id).root
            for entry in self._store.list(f"{root}/") if root != looked.paths.root else ():
                if layout.place(entry.path) is not None or ANY_KEYS.place(entry.path) is not None:
                    raise self._elsewhere(entry.path)

    def _elsewhere(self, path: str) -> InvalidOptionError:
        return InvalidOptionError(
            f"dataset {self._dataset_id!r} has a manifest at {path}, where {type(self._layout).__name__} "
            "does not look: leave the layout out, or give the one it has"
        )

    def _pointer(self, paths: ChainPaths) -> Pointer:
        value = read_pointer(self._store, paths)
        if value is None:
            return Pointer(None, firm=False)
        id = value.decode("utf-8", "replace")
        if id in self._published:
            return Pointer(value, firm=True)
        if not is_id(id):
            return Pointer(value, firm=False)
        intent = self._intent(paths, id)
        if isinstance(intent, EncodedManifest):
            # The swap has committed all members of the group, and their own intents expect another pointer.
            for member in intent.before:
                self._published.mention(member.manifest.snapshot_id, id)
        firm = isinstance(intent, EncodedManifest) or self._store.exists(paths.manifest(id))
        return Pointer(value, firm)

    def _intent(self, paths: ChainPaths, snapshot_id: str) -> _Intent:
        path = paths.intent(snapshot_id)
        try:
            data = get_bounded(self._store, path, MAX_MANIFEST_BYTES)
        except NotFoundError:
            return None
        except ManifestInvalidError:
            return b""  # too large to be one
        try:
            return decode_intent(data, path, decode_manifest)
        except (DataError, RecursionError):
            return data.strip()

    # -- judging -------------------------------------------------------------------------------

    def _why_spare_published(
        self, paths: ChainPaths, snapshot_id: str, files: list[ObjectInfo]
    ) -> str | None:
        """Why all objects of a published snapshot must stay; None if those without a reference may go."""
        published = self._published
        if paths.manifest(snapshot_id) not in published.manifests.get(snapshot_id, ()):
            return f"its only manifest is {published.places(snapshot_id)[0]}"
        if files:
            # Before a file is removed, every manifest of its snapshot is read, also those in a segment.
            published.read_unread(snapshot_id)
        return published.damaged.get(snapshot_id)

    def _of_published(
        self, files: list[ObjectInfo], intent: ObjectInfo | None, limit: datetime
    ) -> list[Leftover]:
        """The objects that a committed snapshot does not need: files of repeated tasks, and its intent."""
        surplus = [file for file in files if file.path not in self._published.files]
        found = [leftover(file, "staged by a task whose other try was committed") for file in surplus]
        if intent is not None:
            found.append(leftover(intent, "the intent of a snapshot that is published"))
        return [item for item in found if item.modified <= limit]

    def _why_spare(self, snapshot_id: str, intent: _Intent, pointer: Pointer) -> str | None:
        """Why a snapshot without a manifest must stay; None if it may be removed once it is fenced."""
        if pointer.id == snapshot_id:
            return "the pointer names it"
        by = self._published.mentioned.get(snapshot_id)
        if by is not None:
            return f"snapshot {by} mentions it as committed, but its manifest is missing: restore that first"
        if isinstance(intent, EncodedManifest):
            return pointer.may_win(intent)
        if intent is not None and intent != TOMBSTONE:
            return "its intent cannot be read, so it may still be committed"
        return None

    def _fence(self, paths: ChainPaths, snapshot_id: str, intent: _Intent) -> bool:
        """Make sure that this snapshot can never be committed. False if its writer was faster.

        Only exactly the intent that was judged is replaced: a newer one may be about to win.
        """
        path = paths.intent(snapshot_id)
        if intent == TOMBSTONE:
            return True
        if not isinstance(intent, EncodedManifest):
            try:
                self._store.put(path, TOMBSTONE)
            except PathExistsError:
                return self._is_tombstone(path)
            return True
        if isinstance(self._store, SupportsCompareAndSwap):
            return self._store.compare_and_swap(path, intent.intent, TOMBSTONE) or self._is_tombstone(path)
        # A store that cannot swap has one writer at a time, and here that is the sweep.
        self._store.delete(path)
        self._store.put(path, TOMBSTONE)
        return True

    def _is_tombstone(self, path: str) -> bool:
        """Whether another sweep was faster, which has the same effect."""
        try:
            return self._store.get(path).strip() == TOMBSTONE
        except NotFoundError:
            return False

    def _advance(self, done: int) -> None:
        if self._progress is not None:
            self._progress(done, None)


def _why_spare_young(files: list[ObjectInfo], intent: ObjectInfo | None, limit: datetime) -> str | None:
    if not files:
        return "nothing but its intent is left"
    youngest = max(entry.modified for entry in [*files, *([intent] if intent else [])])
    if youngest > limit:
        return f"it was last written to at {youngest.isoformat(timespec='seconds')}"
    return None
