"""Drop a dataset or a volume.

A drop is a commit. A writer that comes later is refused, and what came first is part of what is dropped. The
objects of the history before it are removed afterwards. A second call finishes a drop that was interrupted.
The manifest of the drop stays: the next history under the name follows it.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from itertools import compress, islice
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from lode.errors import DataError, DatasetDroppedError, InvalidOptionError, PathExistsError
from lode.format.ids import is_generated
from lode.format.manifest import DROP, DROP_SUFFIX
from lode.read.define import Definitions, locate
from lode.read.history import History
from lode.read.resolve import AnyManifest, Head, dataset_chain
from lode.read.tags import load_tag, tag_names
from lode.write.intent import TOMBSTONE
from lode.write.removal import Drop
from lode.writes import with_removals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lode.change.base import ChangeContext
    from lode.format.manifest import Manifest
    from lode.format.paths import Layout
    from lode.format.volume import VolumeManifest
    from lode.read.resolve import Chain
    from lode.reads import SnapshotRef
    from lode.runtime import Runtime
    from lode.store.protocol import ObjectInfo
    from lode.write.blocks import VolumeDraft
    from lode.write.commit import Committer

# Maximum number of objects that are listed at once, and removed at once.
_MAX_LISTED: Final = 10_000
_MAX_REMOVED: Final = 64
_MAX_SHOWN_TAGS: Final = 3

M = TypeVar("M", bound=AnyManifest)


@dataclass(frozen=True, slots=True)
class DropReport:
    """The result of a drop; ``removed`` is False after a dry run.

    Args:
        snapshots: The snapshots that were dropped.
        files: The data files or blocks that were removed.
        bytes: Their size.
        removed: Whether this was done, or only found out.
    """

    snapshots: int
    files: int
    bytes: int
    removed: bool


def drop_dataset(
    context: ChangeContext,
    *,
    force: bool,
    base: SnapshotRef | None,
    dry_run: bool,
    progress: Callable[[int, int | None], None] | None,
    before_removal: Callable[[Chain[Any]], None] | None = None,
) -> DropReport:
    """Drop a dataset. See ``Dataset.drop``.

    ``before_removal`` is called after the drop is committed, when no tag can be added any more.
    """
    handle = context.handle
    found, head = handle.look()
    if head.manifest is not None and not dry_run:
        found, _ = handle.find_to_write()
        head = found.committer.settle()
    chain, layout = found.chain, found.layout
    if head.manifest is None:
        head, layout = _find_drop(context)
        chain = dataset_chain(handle.store, handle.id, layout)
    else:
        _check_tags(chain, force=force)
        expected = head if base is None else _head_of(context.reads.manifest(base))
        if not dry_run:
            definition = handle.definition_at(found, head.manifest)
            removal = Drop(DROP, partitions=("",), exactly=base is not None)
            with suppress(DatasetDroppedError):  # another process was faster
                handle.commit_definition(
                    found, expected, definition, {}, DROP, with_removals, removal, suffix=DROP_SUFFIX
                )
            head = found.committer.settle()
            handle.forget(found)
    ids = set[str]()

    def is_data(path: str) -> bool:
        return layout.staged(handle.id, path) in ids

    def is_copy(path: str) -> bool:
        place = layout.place(path)
        return place is not None and bool(place.partition) and place.snapshot_id in ids

    walk = History(chain, handle.runtime).newest_first
    remover = _Remover(chain, walk, is_data, is_copy, handle.runtime, progress, before_removal)
    return remover.run(head, lambda manifest: ids.add(manifest.snapshot_id), dry_run=dry_run)


def _find_drop(context: ChangeContext) -> tuple[Head[Manifest], Layout]:
    """The drop of a dataset, and the layout that the dataset had. The next one may have another."""
    handle = context.handle
    located = locate(handle.store, handle.id)
    dropped = None if located is None else located.head.dropped
    if located is None or dropped is None:
        raise context.reads.no_snapshots(near=True)
    definitions = Definitions(located.chain, handle.id, located.layout, handle.runtime)
    return located.head, definitions.at(dropped).open_layout()


def drop_volume(
    chain: Chain[VolumeManifest],
    committer: Committer[VolumeManifest],
    draft: Callable[[Head[VolumeManifest]], VolumeDraft],
    *,
    force: bool,
    base: VolumeManifest | None,
    dry_run: bool,
    progress: Callable[[int, int | None], None] | None,
    runtime: Runtime,
    before_removal: Callable[[Chain[Any]], None] | None = None,
) -> DropReport:
    """Drop a volume. See ``Volume.drop``."""
    head = chain.resolve() if dry_run else committer.settle()
    if head.parent is None:
        raise chain.empty()
    if head.manifest is not None:
        _check_tags(chain, force=force)
        if not dry_run:
            made = draft(head if base is None else _head_of(base))
            made.rebase = base is None
            with suppress(DatasetDroppedError):  # another process was faster
                committer.commit(made)
            head = committer.settle()
    blocks = set[str]()
    remover = _Remover(
        chain, chain.back, blocks.__contains__, lambda _: False, runtime, progress, before_removal
    )
    return remover.run(
        head, lambda manifest: blocks.update(block.path for block in manifest.blocks), dry_run=dry_run
    )


def _head_of(manifest: M) -> Head[M]:
    return Head(manifest.snapshot_id.encode(), manifest)


def _check_tags(chain: Chain[Any], *, force: bool) -> None:
    """Refuse to drop a dataset with tags: a tag says that a snapshot is to be kept."""
    names = [] if force else list(islice(tag_names(chain), _MAX_SHOWN_TAGS + 1))
    if names:
        shown = ", ".join(map(repr, names[:_MAX_SHOWN_TAGS])) + (", …" if names[_MAX_SHOWN_TAGS:] else "")
        raise InvalidOptionError(
            f"{chain.name} has tags ({shown}), which keep its snapshots: remove them with untag, or drop it "
            "with force=True"
        )


class _Remover(Generic[M]):
    """Removes the objects of the history before a drop. Objects of other histories have other ids."""

    def __init__(
        self,
        chain: Chain[M],
        walk: Callable[[M], Iterator[M]],
        is_data: Callable[[str], bool],
        is_copy: Callable[[str], bool],
        runtime: Runtime,
        progress: Callable[[int, int | None], None] | None,
        before_removal: Callable[[Chain[Any]], None] | None,
    ) -> None:
        self._chain = chain
        self._before_removal = before_removal
        self._store = chain.store
        self._walk = walk
        self._is_data = is_data
        self._is_copy = is_copy
        self._runtime = runtime
        self._progress = progress
        self._done = 0

    def run(self, head: Head[M], take: Callable[[M], object], *, dry_run: bool) -> DropReport:
        """Remove everything before the drop; of a history that is not dropped, only find out what that is.

        Args:
            head: The drop, or with ``dry_run`` the newest snapshot.
            take: Called with every manifest before any object is judged.
            dry_run: Remove nothing.
        """
        dropped = head.dropped
        if dropped is None and not dry_run:
            return DropReport(0, 0, 0, removed=True)  # others have dropped it, and created it anew
        ids: list[str] = []
        count = 0
        for manifest in self._before(head):
            ids.append(manifest.snapshot_id)
            count += manifest.operation != DROP
            take(manifest)
        if dropped is not None and not dry_run:
            if self._before_removal is not None:
                self._before_removal(self._chain)
            self._remove(list(self._tags(dropped)))
            self._remove(list(self._keys(dropped)))
        files, size, others = self._remove_data(set(ids), dry_run=dry_run)
        if dropped is not None and not dry_run:
            ids += self._older(others, self._chain.sequence_of(dropped))
            self._runtime.each(self._fence, [id for id in ids if not is_generated(id)])
            # About the oldest first: what is left of an interrupted drop is mostly found through the parents.
            self._remove([self._chain.paths.manifest(id) for id in reversed(ids)])
            self._remove(list(self._derived(dropped, set(ids))))
        return DropReport(count, files, size, removed=not dry_run)

    def _before(self, head: Head[M]) -> Iterator[M]:
        """The snapshots up to the head or before the drop, newest first, also those before earlier drops."""
        current = head.manifest
        if head.dropped is not None:
            current = self._parent(head.dropped)
        while current is not None:
            oldest = current
            if current.operation == DROP:
                yield current
            else:
                # A manifest that is missing was removed before, with all older ones; or it is damaged.
                with suppress(DataError):
                    for oldest in self._walk(current):
                        yield oldest
            current = self._parent(oldest)

    def _parent(self, manifest: M) -> M | None:
        try:
            return self._chain.manifest(manifest.parent_snapshot_id or "")
        except DataError:
            return None

    def _older(self, others: list[str], sequence: int) -> list[str]:
        """Those snapshots before the drop whose children an interrupted drop has removed before them."""

        def is_older(snapshot_id: str) -> bool:
            with suppress(DataError):
                manifest = self._chain.manifest(snapshot_id)
                return manifest is not None and (manifest.sequence or sequence) < sequence
            return False

        return list(compress(others, self._runtime.each(is_older, others)))

    def _remove_data(self, ids: set[str], *, dry_run: bool) -> tuple[int, int, list[str]]:
        """Remove data files, copies of manifests, and intents.

        Returns:
            The number and size of the files, and the ids of other manifests that are there.
        """
        files = size = 0
        others: list[str] = []
        paths = self._chain.paths
        for entries in self._chunks():
            data = [entry for entry in entries if self._is_data(entry.path)]
            files += len(data)
            size += sum(entry.size for entry in data)
            manifests = filter(None, (paths.snapshot_of(entry.path) for entry in entries))
            others += [id for id in manifests if id not in ids]
            if not dry_run:
                self._remove([entry.path for entry in data])
                self._remove(
                    [
                        entry.path
                        for entry in entries
                        if self._is_copy(entry.path) or paths.intended_at(entry.path) in ids
                    ]
                )
        return files, size, others

    def _chunks(self) -> Iterator[Sequence[ObjectInfo]]:
        """All objects, so many at once that they fit in memory."""
        prefix, after = f"{self._chain.paths.root}/", ""
        while entries := list(islice(self._store.list(prefix, after=after), _MAX_LISTED)):
            after = entries[-1].path
            yield entries

    def _tags(self, dropped: M) -> Iterator[str]:
        for name in tag_names(self._chain):
            with suppress(DataError):  # a damaged tag names nothing
                tag = load_tag(self._chain, name)
                if tag is None or tag.sequence > self._chain.sequence_of(dropped):
                    continue
            yield self._chain.paths.tag(name)

    def _keys(self, dropped: M) -> Iterator[str]:
        """The idempotency keys of the dropped history. Later histories have theirs in folders below."""
        prefix = self._chain.paths.keys(dropped.begins)
        for entry in self._store.list(prefix):
            if "/" not in entry.path.removeprefix(prefix):
                yield entry.path

    def _derived(self, dropped: M, ids: set[str]) -> Iterator[str]:
        """Checkpoints and history segments, which can be made again, and drafts that waited for a leader."""
        paths = self._chain.paths
        for entry in self._store.list(paths.waiting):
            if entry.path.split("/")[-2] in ids:
                yield entry.path
        for entry in self._store.list(paths.states):
            yield entry.path
        for entry in self._store.list(f"{paths.root}/history/"):
            last = entry.path.rpartition("/")[2].removesuffix(".json.zst")
            if last.isdecimal() and int(last) <= self._chain.sequence_of(dropped):
                yield entry.path

    def _fence(self, snapshot_id: str) -> None:
        """Make sure that an id chosen by a caller is never used again: files have it in their path."""
        with suppress(PathExistsError):
            self._store.put(self._chain.paths.intent(snapshot_id), TOMBSTONE)

    def _remove(self, paths: Sequence[str]) -> None:
        for start in range(0, len(paths), _MAX_REMOVED):
            self._runtime.each(self._store.delete, paths[start : start + _MAX_REMOVED])
            self._done += min(_MAX_REMOVED, len(paths) - start)
            if self._progress is not None:
                self._progress(self._done, None)
