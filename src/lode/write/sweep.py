"""Find and remove what dead writers left behind: staged files and intents no snapshot needs.

Safe beside running writers, however slow. Before the files of an uncommitted snapshot go, the snapshot
is fenced: its intent becomes a tombstone, conditionally. A writer that wakes up later finds its intent
taken and its commit refused, so nobody can commit files that are gone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from lode.errors import InvalidOptionError, PathExistsError
from lode.format.ids import check_new_id
from lode.format.manifest import decode_manifest
from lode.format.paths import INTENT, DefaultLayout, FlatLayout, HiveLayout, Layout
from lode.read.history import History
from lode.read.resolve import Chain, Pending
from lode.runtime import REAL, Runtime
from lode.store.open import open_store
from lode.store.protocol import SupportsCompareAndSwap

if TYPE_CHECKING:
    import os

    from lode.format.manifest import Manifest
    from lode.store.protocol import ObjectInfo, Store

TOMBSTONE: Final = b'{"swept": true}'


@dataclass(frozen=True, slots=True)
class Leftover:
    """An object nothing refers to, and why it may go."""

    path: str
    size: int
    modified: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class Sweep:
    """What a sweep found; ``removed`` tells whether it also removed it."""

    leftovers: tuple[Leftover, ...]
    removed: bool
    # Uncommitted snapshots that were left alone, and why.
    spared: dict[str, str] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        return sum(item.size for item in self.leftovers)


def sweep(
    store: str | os.PathLike[str] | Store,
    dataset: str,
    older_than: timedelta,
    *,
    dry_run: bool = True,
    layout: Layout | None = None,
    runtime: Runtime = REAL,
) -> Sweep:
    """Find what dead writers left in a dataset and, unless ``dry_run``, remove it.

    Args:
        store: A URL, a path or a store.
        dataset: The dataset's id.
        older_than: Nothing younger is touched, nor anything of an uncommitted snapshot that has something
            younger. Choose more than your longest write takes.
        dry_run: Only say what would go, and why.
        layout: The layout the dataset was written with; found out if not given.
        runtime: The clock.
    """
    if older_than < timedelta(0):
        raise InvalidOptionError(f"older_than is {older_than}: it must not be negative")
    opened = open_store(store)
    laid_out = _layout_of(opened, check_new_id(dataset, kind="dataset"), layout)
    limit = datetime.fromtimestamp(runtime.now_ns() / 1e9, UTC) - older_than
    return _Sweeper(opened, dataset, laid_out, runtime).run(limit, dry_run=dry_run)


def _layout_of(store: Store, dataset_id: str, said: Layout | None) -> Layout:
    """The layout under which the dataset has its history; under another all of it would look abandoned."""
    # The place of a Hive layout's manifests does not depend on its keys.
    for layout in (DefaultLayout(), HiveLayout("?"), FlatLayout()):
        head = _chain(store, dataset_id, layout).resolve()
        if head.manifest is None and head.pending is None:
            continue
        if said is not None and said.chain(dataset_id) != layout.chain(dataset_id):
            raise InvalidOptionError(
                f"dataset {dataset_id!r} has its history in {layout.chain(dataset_id).manifests}, where "
                f"{type(said).__name__} does not look: leave the layout out, or give the one it has"
            )
        return said or layout
    return said or DefaultLayout()


def _chain(store: Store, dataset_id: str, layout: Layout) -> Chain[Manifest]:
    paths = layout.chain(dataset_id)
    return Chain(store, paths, decode_manifest, lambda _: (), f"dataset {dataset_id!r}", dataset_id)


class _Sweeper:
    def __init__(self, store: Store, dataset_id: str, layout: Layout, runtime: Runtime) -> None:
        self._store = store
        self._chain = _chain(store, dataset_id, layout)
        self._history = History(self._chain, runtime)

    def run(self, limit: datetime, *, dry_run: bool) -> Sweep:
        # The order is what makes this safe. Files are listed before history is read, so that one committed in
        # between is referred to. Intents are read before history is read again: then every snapshot that
        # is still uncommitted has either an intent on the head or one that can no longer win as it stands.
        staged, intents = self._list()
        already = {
            manifest.snapshot_id for manifest in self._history.oldest_first(self._chain.resolve().manifest)
        }
        uncommitted = sorted((staged.keys() | intents.keys()) - already)
        declared = {snapshot_id: self._chain.intent(snapshot_id) for snapshot_id in uncommitted}

        head = self._chain.resolve()
        visible = self._history.oldest_first(head.manifest)
        if head.pending is not None:
            visible.append(head.pending.manifest)
        published = {manifest.snapshot_id for manifest in visible}
        referred = {file.path for manifest in visible for file in manifest.files}

        leftovers: list[Leftover] = []
        spared: dict[str, str] = {}
        for snapshot_id in sorted(staged.keys() | intents.keys()):
            files = [file for file in staged.get(snapshot_id, []) if file.path not in referred]
            intent = intents.get(snapshot_id)
            if snapshot_id in published:
                unneeded = intent if snapshot_id in already else None
                leftovers += _of_published(files, unneeded, limit)
                continue
            reason = _why_spare(files, intent, declared[snapshot_id], limit, head.pointer)
            if reason is None and not dry_run and not self._fence(snapshot_id, declared[snapshot_id]):
                reason = "its writer came back to life"
            if reason is not None:
                spared[snapshot_id] = reason
                continue
            leftovers += [
                _leftover(file, f"staged for {snapshot_id}, which was never committed") for file in files
            ]
        if not dry_run:
            for item in leftovers:
                self._store.delete(item.path)
        return Sweep(tuple(leftovers), not dry_run, spared)

    def _list(self) -> tuple[dict[str, list[ObjectInfo]], dict[str, ObjectInfo]]:
        """Data files and intents, by the snapshot they were made for."""
        staged: dict[str, list[ObjectInfo]] = {}
        intents: dict[str, ObjectInfo] = {}
        for entry in self._store.list(f"{self._chain.paths.root}/"):
            match entry.path.split("/"):
                case [*_, snapshot_id, "data", _]:
                    staged.setdefault(snapshot_id, []).append(entry)
                case [*_, snapshot_id, name] if name == INTENT:
                    intents[snapshot_id] = entry
        return staged, intents

    def _fence(self, snapshot_id: str, declared: Pending[Manifest] | None) -> bool:
        """Make sure this snapshot can never be committed any more; False if its writer was faster.

        Only the very intent that was judged is replaced: a newer one may be about to win.
        """
        path = self._chain.paths.intent(snapshot_id)
        if declared is None:
            try:
                self._store.put(path, TOMBSTONE)
            except PathExistsError:
                return self._store.get(path).strip() == TOMBSTONE
            return True
        if isinstance(self._store, SupportsCompareAndSwap):
            return self._store.compare_and_swap(path, declared.data, TOMBSTONE)
        # A store that cannot swap has one writer at a time, and whoever sweeps there is that one.
        self._store.delete(path)
        self._store.put(path, TOMBSTONE)
        return True


def _why_spare(
    files: list[ObjectInfo],
    intent: ObjectInfo | None,
    declared: Pending[Manifest] | None,
    limit: datetime,
    pointer: bytes | None,
) -> str | None:
    """Why an uncommitted snapshot must stay; None if it may go."""
    if not files:
        return "nothing but its intent is left"
    youngest = max(entry.modified for entry in [*files, *([intent] if intent else [])])
    if youngest > limit:
        return f"it was last written to at {youngest.isoformat(timespec='seconds')}"
    if declared is not None:
        # The intent was read before the pointer, and pointer values never come back: one with any other
        # parent is of the past and cannot win as it stands.
        parent = declared.manifest.parent_snapshot_id
        if (parent.encode() if parent else None) == pointer:
            return "it can still be committed onto the current head"
    return None


def _of_published(files: list[ObjectInfo], intent: ObjectInfo | None, limit: datetime) -> list[Leftover]:
    """What a committed snapshot no longer needs: files of repeated tasks, and its intent."""
    found = [_leftover(file, "staged by a task whose other try was committed") for file in files]
    if intent is not None:
        found.append(_leftover(intent, "the intent of a snapshot that is published"))
    return [item for item in found if item.modified <= limit]


def _leftover(entry: ObjectInfo, reason: str) -> Leftover:
    return Leftover(entry.path, entry.size, entry.modified, reason)
