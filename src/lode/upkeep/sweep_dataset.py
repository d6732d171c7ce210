"""Sweep a dataset.

Before the files of an uncommitted snapshot are removed, the snapshot is fenced: its intent becomes a
tombstone, conditionally. A writer that wakes up later finds its intent taken and its commit refused, so
nobody can commit files that are gone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from lode.errors import (
    DataError,
    InvalidOptionError,
    LodeError,
    ManifestInvalidError,
    NotFoundError,
    PathExistsError,
)
from lode.format.ids import LAKE_FOLDERS, RESERVED_IDS, is_id
from lode.format.manifest import MAX_MANIFEST_BYTES, Manifest, decode_manifest, expected_pointer
from lode.format.paths import MANIFEST, DefaultLayout, FlatLayout, Layout
from lode.read.manifests import read_manifests, read_pointer
from lode.read.resolve import ANY_KEYS, AnyManifest, EncodedManifest
from lode.read.segment import LEVELS, decode_segment
from lode.read.source import get_bounded
from lode.runtime import Runtime, one_by_one
from lode.store.open import is_nearby
from lode.store.protocol import SupportsCompareAndSwap
from lode.upkeep.leftovers import Leftover, Sweep, leftover, sweep_temporaries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from datetime import datetime

    from lode.format.paths import ChainPaths
    from lode.store.protocol import ObjectInfo, Store

TOMBSTONE: Final = b'{"swept": true}'
# Segments decoded at once; each holds up to 4,096 manifests.
_SEGMENT_BATCH: Final = 4
_PROGRESS_STEP: Final = 1_000
# In a flat layout these are other folders of a lake; in a store opened at a dataset's root, parts of that.
_RESERVED_FLAT_IDS: Final = LAKE_FOLDERS | {
    "definition",
    "history",
    "keys",
    "partitions",
    "segments",
    "snapshots",
}

# What is at an intent's path: nothing, a manifest, or bytes that are none, such as a tombstone.
_Intent: TypeAlias = EncodedManifest[Manifest] | bytes | None


def is_reserved(dataset_id: str, layout: Layout | None) -> bool:
    """Whether objects of others are below this id's root. File systems may not tell upper from lower case."""
    name = dataset_id.casefold()
    return name in RESERVED_IDS or (isinstance(layout, FlatLayout) and name in _RESERVED_FLAT_IDS)


@dataclass(slots=True)
class _Objects:
    """What writers with this layout stage below a dataset's root, by the snapshot it is for."""

    layout: Layout
    paths: ChainPaths
    staged: dict[str, list[ObjectInfo]] = field(default_factory=dict)
    intents: dict[str, ObjectInfo] = field(default_factory=dict)

    @property
    def snapshots(self) -> set[str]:
        return self.staged.keys() | self.intents.keys()

    def take(self, dataset_id: str, entry: ObjectInfo) -> bool:
        staged_for = self.layout.staged(dataset_id, entry.path)
        if staged_for is not None:
            self.staged.setdefault(staged_for, []).append(entry)
            return True
        intended = self.paths.intended_at(entry.path)
        if intended is not None:
            self.intents[intended] = entry
        return intended is not None


@dataclass(slots=True)
class _Published:
    """The manifests below a root, of whatever layout, and all that they name."""

    # Paths by the snapshot in whose folder they are. Copies are those in partitions.
    manifests: dict[str, list[str]] = field(default_factory=dict)
    copies: dict[str, list[str]] = field(default_factory=dict)
    read: set[str] = field(default_factory=set)
    files: set[str] = field(default_factory=set)
    # Snapshots that history mentions, each with a snapshot that mentions it.
    mentioned: dict[str, str] = field(default_factory=dict)
    damaged: dict[str, str] = field(default_factory=dict)

    def __contains__(self, snapshot_id: object) -> bool:
        return snapshot_id in self.manifests or snapshot_id in self.copies

    def places(self, snapshot_id: str) -> list[str]:
        return [*self.manifests.get(snapshot_id, ()), *self.copies.get(snapshot_id, ())]

    def take(self, manifest: Manifest) -> None:
        self.files.update(file.path for file in manifest.files)
        self.mention(manifest.snapshot_id, manifest.snapshot_id)
        self.mention(manifest.parent_snapshot_id, manifest.snapshot_id)
        try:
            for snapshot_id in manifest.recent:
                self.mention(snapshot_id, manifest.snapshot_id)
        except DataError:
            pass  # it only helps writers to catch up

    def mention(self, snapshot_id: str | None, by: str) -> None:
        if snapshot_id:
            self.mentioned.setdefault(snapshot_id, by)


@dataclass(frozen=True, slots=True)
class Pointer:
    """The pointer as a sweep has read it: after the intents that it is compared with."""

    value: bytes | None
    # Whether it names a snapshot that has a manifest or an intent. Otherwise it is lost or dangles.
    firm: bool

    @property
    def id(self) -> str | None:
        return None if self.value is None else self.value.decode("utf-8", "replace")

    def may_win(self, manifest: AnyManifest, extension: dict[str, object] | None) -> str | None:
        """Why the snapshot of an intent could still be committed as it stands; None if it cannot.

        The intent was read before the pointer, and pointer values never come back: an intent that expects
        any other value is of the past.
        """
        if self.value is not None and self.id != self.value.decode("utf-8", "surrogateescape"):
            return "the pointer is not text, so what may follow it is not known"
        if expected_pointer(manifest.parent_snapshot_id, extension) == self.value:
            return "it can still be committed onto the current head"
        if not self.firm and "expected" not in (extension or {}):
            # Version 0.1 does not record which value it expects.
            return "the pointer is lost or names nothing: it may be what this commit expects"
        return None


class DatasetSweeper:
    """Sweeps one dataset once."""

    def __init__(
        self,
        store: Store,
        dataset_id: str,
        layout: Layout | None,
        progress: Callable[[int, int | None], None] | None,
        runtime: Runtime,
    ) -> None:
        self._store = store
        self._dataset_id = dataset_id
        self._said = layout
        self._progress = progress
        self._runtime = runtime
        self._published = _Published()
        self._segments: list[tuple[int, int, str]] = []

    def run(self, limit: datetime, *, dry_run: bool) -> Sweep:
        # The order is what makes this safe. Files are listed first. Intents are read before the pointer, and
        # the pointer before the last look for a manifest. A snapshot that won before the pointer was read is
        # named by it or has its manifest. One that had not won by then has an intent that expects the current
        # pointer, or can no longer win as it stands.
        objects = self._list()
        paths = objects.paths
        self._read_all()
        published = self._published
        intents = {id: self._intent(paths, id) for id in sorted(objects.snapshots) if id not in published}
        for intent in intents.values():
            if isinstance(intent, EncodedManifest):
                published.mention(intent.manifest.parent_snapshot_id, intent.manifest.snapshot_id)
        pointer = self._pointer(paths)

        leftovers: list[Leftover] = []
        spared = dict(published.damaged)
        for snapshot_id in sorted(objects.snapshots):
            files = [file for file in objects.staged.get(snapshot_id, []) if file.path not in published.files]
            intent_object = objects.intents.get(snapshot_id)
            if snapshot_id in published:
                reason = self._why_spare_published(paths, snapshot_id, files)
                found = [] if reason else self._of_published(files, intent_object, limit)
            elif not files and intents[snapshot_id] == TOMBSTONE:
                continue  # it stays for ever, and there is nothing to say about it
            else:
                intent = intents[snapshot_id]
                reason = _why_spare_young(files, intent_object, limit)
                reason = reason or self._why_spare(snapshot_id, intent, pointer)
                if reason is None and not dry_run and not self._fence(paths, snapshot_id, intent):
                    reason = "its writer came back to life"
                # A writer outside this protocol heeds no tombstone: look for its manifest once more.
                if reason is None and self._store.exists(paths.manifest(snapshot_id)):
                    reason = "it was published just now"
                why = f"staged for {snapshot_id}, which was never committed"
                found = [leftover(file, why) for file in files]
            if reason is not None:
                spared[snapshot_id] = reason
                continue
            leftovers += found
            if not dry_run:
                for item in found:
                    self._store.delete(item.path)
                self._advance(len(leftovers))
        leftovers += sweep_temporaries(self._store, paths.root, limit, dry_run=dry_run)
        return Sweep(tuple(leftovers), not dry_run, spared)

    # -- looking -------------------------------------------------------------------------------

    def _list(self) -> _Objects:
        """List the dataset's root. Without a given layout, what is there tells which one it has."""
        layouts: list[Layout] = [self._said] if self._said else [DefaultLayout(), ANY_KEYS, *self._flat()]
        candidates = [_Objects(layout, layout.chain(self._dataset_id)) for layout in layouts]
        for root in dict.fromkeys(each.paths.root for each in candidates):
            here = [each for each in candidates if each.paths.root == root]
            self._list_root(root, here)
            if self._published.manifests or self._published.copies:
                return self._with_history(here)
        if self._said is not None:
            self._refuse_history_elsewhere(candidates[0])
        return next((each for each in candidates if each.snapshots), candidates[0])

    def _flat(self) -> list[Layout]:
        return [] if is_reserved(self._dataset_id, FlatLayout()) else [FlatLayout()]

    def _list_root(self, root: str, candidates: list[_Objects]) -> None:
        for number, entry in enumerate(self._store.list(f"{root}/"), 1):
            if not number % _PROGRESS_STEP:
                self._advance(number)
            *_, folder, name = entry.path.split("/")
            if name == MANIFEST:
                # Any object of this name counts, so no layout can make committed files look abandoned.
                copy = entry.path.startswith(f"{root}/partitions/")
                place = self._published.copies if copy else self._published.manifests
                place.setdefault(folder, []).append(entry.path)
            elif not any(each.take(self._dataset_id, entry) for each in candidates):
                self._note_segment(root, folder, name, entry.path)

    def _note_segment(self, root: str, folder: str, name: str, path: str) -> None:
        last = name.removesuffix(".json.zst")
        if path.startswith(f"{root}/history/") and folder.isdecimal() and last.isdecimal():
            self._segments.append((int(folder), int(last), path))

    def _with_history(self, candidates: list[_Objects]) -> _Objects:
        """The layout whose manifests are there; if there are several, the one the pointer names."""
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
        if self._said is not None:
            raise self._elsewhere(everywhere[0])
        return next((each for each in candidates if each.snapshots), candidates[0])

    def _refuse_history_elsewhere(self, looked: _Objects) -> None:
        """Refuse a layout that sees nothing where another one sees a history."""
        for layout in (DefaultLayout(), *self._flat()):
            root = layout.chain(self._dataset_id).root
            for entry in self._store.list(f"{root}/") if root != looked.paths.root else ():
                if layout.place(entry.path) is not None or ANY_KEYS.place(entry.path) is not None:
                    raise self._elsewhere(entry.path)

    def _elsewhere(self, path: str) -> InvalidOptionError:
        return InvalidOptionError(
            f"dataset {self._dataset_id!r} has a manifest at {path}, where {type(self._said).__name__} does "
            "not look: leave the layout out, or give the one it has"
        )

    def _read_all(self) -> None:
        """Take in every manifest: from history segments where they hold it, else from its own object."""
        published = self._published
        covered: set[str] = set()
        for manifest in self._in_segments():
            published.take(manifest)
            covered.add(manifest.snapshot_id)
        self._read(
            path
            for snapshot_id, places in published.manifests.items()
            for path in places
            if snapshot_id not in covered or len(places) > 1
        )
        # A copy repeats its manifest, so it is read only where that is missing or damaged.
        self._read(
            path
            for snapshot_id, places in published.copies.items()
            for path in places
            if snapshot_id not in published.manifests or snapshot_id in published.damaged
        )

    def _read(self, paths: Iterable[str]) -> None:
        published = self._published
        for path, manifest in read_manifests(self._store, paths, decode_manifest, self._runtime):
            published.read.add(path)
            snapshot_id = path.split("/")[-2]
            if isinstance(manifest, DataError):
                published.damaged[snapshot_id] = f"its manifest {path} cannot be read: {manifest}"
                continue
            published.take(manifest)
            if manifest.snapshot_id != snapshot_id or manifest.dataset_id != self._dataset_id:
                whose = f"snapshot {manifest.snapshot_id} of dataset {manifest.dataset_id!r}"
                published.damaged[snapshot_id] = f"its manifest {path} is that of {whose}"

    def _in_segments(self) -> Iterator[Manifest]:
        """The manifests that segments hold, largest segments first, none that the larger ones hold too."""
        smallest = LEVELS[-1]
        paths: list[str] = []
        covered: set[int] = set()
        for level, last, path in sorted(self._segments, reverse=True):
            if level in LEVELS:
                runs = range(last - level + smallest, last + 1, smallest)
                if not covered.issuperset(runs):
                    paths.append(path)
                    covered.update(runs)
        each = one_by_one if is_nearby(self._store) else self._runtime.each
        for start in range(0, len(paths), _SEGMENT_BATCH):
            for manifests in each(self._segment, paths[start : start + _SEGMENT_BATCH]):
                yield from manifests

    def _segment(self, path: str) -> list[Manifest]:
        """The manifests of a segment; none if it cannot be read, and then each is read by itself."""
        try:
            raw = decode_segment(get_bounded(self._store, path, MAX_MANIFEST_BYTES))
            manifests = [decode_manifest(bytes(data), path) for data in raw]
        except (LodeError, msgspec.MsgspecError, ValueError, RecursionError):
            return []
        return [manifest for manifest in manifests if manifest.dataset_id == self._dataset_id]

    def _pointer(self, paths: ChainPaths) -> Pointer:
        value = read_pointer(self._store, paths)
        if value is None:
            return Pointer(None, firm=False)
        id = value.decode("utf-8", "replace")
        if id in self._published:
            return Pointer(value, firm=True)
        if not is_id(id):
            return Pointer(value, firm=False)
        firm = isinstance(self._intent(paths, id), EncodedManifest) or self._store.exists(paths.manifest(id))
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
            return EncodedManifest(decode_manifest(data, path), data)
        except (DataError, RecursionError):
            return data.strip()

    # -- judging -------------------------------------------------------------------------------

    def _why_spare_published(
        self, paths: ChainPaths, snapshot_id: str, files: list[ObjectInfo]
    ) -> str | None:
        """Why all of a snapshot that has a manifest must stay; None if what no manifest names may go."""
        published = self._published
        if paths.manifest(snapshot_id) not in published.manifests.get(snapshot_id, ()):
            return f"its only manifest is {published.places(snapshot_id)[0]}"
        if files:
            # Before a file goes, ask every manifest of its snapshot, also those that were read in a segment.
            self._read(path for path in published.places(snapshot_id) if path not in published.read)
        return published.damaged.get(snapshot_id)

    def _of_published(
        self, files: list[ObjectInfo], intent: ObjectInfo | None, limit: datetime
    ) -> list[Leftover]:
        """What a committed snapshot no longer needs: files of repeated tasks, and its intent."""
        surplus = [file for file in files if file.path not in self._published.files]
        found = [leftover(file, "staged by a task whose other try was committed") for file in surplus]
        if intent is not None:
            found.append(leftover(intent, "the intent of a snapshot that is published"))
        return [item for item in found if item.modified <= limit]

    def _why_spare(self, snapshot_id: str, intent: _Intent, pointer: Pointer) -> str | None:
        """Why a snapshot without a manifest must stay; None if it may go once it is fenced."""
        if pointer.id == snapshot_id:
            return "the pointer names it"
        by = self._published.mentioned.get(snapshot_id)
        if by is not None:
            return f"snapshot {by} mentions it as committed, but its manifest is missing: restore that first"
        if isinstance(intent, EncodedManifest):
            return pointer.may_win(intent.manifest, intent.manifest.x)
        if intent is not None and intent != TOMBSTONE:
            return "its intent cannot be read, so it may still be committed"
        return None

    def _fence(self, paths: ChainPaths, snapshot_id: str, intent: _Intent) -> bool:
        """Make sure this snapshot can never be committed any more; False if its writer was faster.

        Only the very intent that was judged is replaced: a newer one may be about to win.
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
            return self._store.compare_and_swap(path, intent.data, TOMBSTONE) or self._is_tombstone(path)
        # A store that cannot swap has one writer at a time, and whoever sweeps there is that one.
        self._store.delete(path)
        self._store.put(path, TOMBSTONE)
        return True

    def _is_tombstone(self, path: str) -> bool:
        """Whether another sweep was faster, which is as good."""
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
