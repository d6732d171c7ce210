"""The state of a dataset at a snapshot: every file that it and its ancestors added, less those they removed.

This is the only place that turns a history into visible files. A dataset without removals is its history. Its
definition says which it is, so that such a dataset costs nothing more.

The state is a sequence of manifests, oldest first, each with only the files that are still visible. So a file
keeps the definition under which it was written.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from lode.definition import REMOVALS
from lode.errors import LodeError
from lode.format.manifest import MAX_COUNT, Removed
from lode.format.paths import canonical_partition, enclosing
from lode.read.checkpoint import load_checkpoint, put_checkpoint, stripped
from lode.read.files import count_rows
from lode.read.lazy_history import LazyHistory

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator

    from lode.codec.components import Components
    from lode.format.manifest import CheckpointRef, FileRef, Manifest, Removes
    from lode.read.define import Definitions
    from lode.read.history import History
    from lode.read.resolve import Chain

logger = logging.getLogger("lode.history")

Entry: TypeAlias = "tuple[FileRef, Manifest]"
"""A file with the snapshot that added it."""

# After how many snapshots a checkpoint is written once a dataset has removals.
CHECKPOINT_STEP: Final = 256
# A state up to this size is always worth a checkpoint.
MIN_CHECKPOINT_FILES: Final = 1_000
# The rows of a manifest of which some files were left out. They are counted on demand.
UNKNOWN: Final = -1


@dataclass(frozen=True, slots=True)
class Cut:
    """What of the files of a history is held in memory; everything by default.

    ``only`` says of a path whether the file is held, ``slim`` returns what of it.
    """

    only: Callable[[str], bool] | None = None
    slim: Callable[[FileRef], FileRef] | None = None

    def __call__(self, manifest: Manifest) -> Manifest:
        """A manifest with only some of the files that it adds and removes."""
        only, slim = self.only, self.slim
        if only is None and slim is None:
            return manifest
        files = manifest.files if only is None else [file for file in manifest.files if only(file.path)]
        rows, x = manifest.row_count, manifest.x
        if len(files) != len(manifest.files):
            counts = [file.stats.row_count for file in files if file.stats is not None]
            rows = sum(counts) if len(counts) == len(files) else UNKNOWN
        removes = manifest.removes
        if only is not None and removes is not None:
            paths = [path for path in removes.files if only(path)]
            x = {**(x or {}), "removes": {"partitions": list(removes.partitions), "files": paths}}
        return msgspec.structs.replace(
            manifest, files=tuple(files if slim is None else map(slim, files)), row_count=rows, x=x
        )


def _no_file(_path: str) -> bool:
    return False


_NOTHING: Final = Cut(_no_file)


class States:
    """The states of one dataset."""

    def __init__(
        self,
        chain: Chain[Manifest],
        history: History,
        definitions: Definitions,
        partition_of: Callable[[str], str],
        components_of: Callable[[Manifest], Components],
    ) -> None:
        self._chain = chain
        self._history = history
        self._definitions = definitions
        self._partition_of = partition_of
        self._components_of = components_of
        # The newest checkpoint that this process has written.
        self._written: CheckpointRef | None = None

    def at(self, head: Manifest | None) -> LazyHistory:
        """The visible files at a snapshot."""
        if head is None or REMOVALS not in self._definitions.at(head).features:
            return self._history.up_to(head)
        return LazyHistory(self.fold(head).manifests())

    def fold(
        self,
        head: Manifest | None,
        *,
        checkpoints: bool = True,
        cut: Cut | None = None,
        newest: Manifest | None = None,
    ) -> Fold:
        """The files at a snapshot, ready to be changed by later snapshots.

        Args:
            head: The snapshot; None for no files.
            checkpoints: Begin with the newest checkpoint; else the whole history is read.
            cut: What of each file is held in memory, and of which files. A checkpoint is read whole.
            newest: A snapshot after it, if its own history has no definition and a later one counts.
        """
        state = Fold(self._partition_of, self._rows_of)
        if head is None:
            return state
        base, steps = self._since_checkpoint(head, checkpoints=checkpoints, cut=cut or Cut())
        for manifest in base:
            state.add(manifest if cut is None else cut(manifest))
        for manifest in self._defined(steps[::-1], newest or head):
            if manifest.restores is None:
                state.apply(manifest)
        state.folded = sum(len(manifest.files) for manifest in steps)
        return state

    def weight(self, head: Manifest) -> int:
        """The number of files that a fold with checkpoints holds at most. No more than a manifest is held."""
        total = 0

        def counted(manifest: Manifest) -> Manifest:
            nonlocal total
            total += len(manifest.files)
            return _NOTHING(manifest)

        base, _ = self._since_checkpoint(head, checkpoints=True, cut=counted)
        return total + sum(len(manifest.files) for manifest in base)

    def reduced(self, entries: Iterable[Entry]) -> list[Manifest]:
        """The snapshots that added these files, each with only those of them that follow each other."""
        return reduced(entries, self._rows_of)

    def each(self, head: Manifest) -> Iterator[tuple[Manifest, Callable[[], list[Manifest]]]]:
        """Every snapshot up to ``head``, oldest first, with its state as a checkpoint of it has it.

        No checkpoint is read. Call the state before the next snapshot.
        """
        state = Fold(self._partition_of, self._rows_of)
        for manifest in self._defined(list(self._history.up_to(head)), head):
            if manifest.restores is None:
                state.apply(manifest)
            else:
                target = self._chain.ancestor(manifest.restores, manifest.snapshot_id)
                state = self.fold(target, checkpoints=False, newest=head)
            yield manifest, partial(_as_checkpoint, state)

    def checkpoint_after(self, parent: Manifest | None) -> CheckpointRef | None:
        """The newest checkpoint that a child of this snapshot can name."""
        if parent is None:
            return None
        found, own = parent.checkpoint, self._written
        if own is None or not parent.begins <= own.sequence <= self._chain.sequence_of(parent):
            return found
        return own if found is None or found.sequence < own.sequence else found

    def is_due(self, head: Manifest) -> bool:
        """Whether the newest checkpoint is so old that a new one is worth its cost."""
        newest = self.checkpoint_after(head)
        before = head.begins - 1 if newest is None else newest.sequence
        return self._chain.sequence_of(head) - before >= CHECKPOINT_STEP

    def write_checkpoint(self, head: Manifest, only: Container[str] | None = None) -> CheckpointRef | None:
        """Write a checkpoint, best effort, unless it saves little reading for its size.

        The next commit of this process names it. Nothing reads it before that.

        Args:
            head: The snapshot.
            only: The paths of all files that are visible there, if they are known. No others are held in
                memory then.
        """
        cut = None if only is None else Cut(only.__contains__)
        ref = self._checkpoint(head, lambda: self.fold(head, checkpoints=only is None, cut=cut))
        self._written = ref or self._written
        return ref

    def checkpoint_with(self, child: Manifest, parent: Manifest) -> CheckpointRef | None:
        """Write the checkpoint of a snapshot that is about to be committed, which can then name it itself.

        It holds only if the snapshot lands behind this parent, so no other snapshot may name it.
        """

        def state() -> Fold:
            found = self.fold(parent)
            found.apply(child)
            found.folded += len(child.files)
            return found

        return self._checkpoint(child, state)

    def _checkpoint(self, head: Manifest, fold: Callable[[], Fold]) -> CheckpointRef | None:
        try:
            if REMOVALS not in self._definitions.at(head).features or _replaces_everything(head):
                return None
            state = fold()
            if len(state) > max(MIN_CHECKPOINT_FILES, 4 * state.folded):
                return None
            return put_checkpoint(self._chain, head, state.manifests())
        except LodeError as error:
            logger.debug("%s: no checkpoint at %s: %s", self._chain.name, head.snapshot_id, error)
            return None

    def _since_checkpoint(
        self, head: Manifest, *, checkpoints: bool, cut: Callable[[Manifest], Manifest]
    ) -> tuple[Iterable[Manifest], list[Manifest]]:
        """The newest known state, and the manifests after it, newest first."""
        steps: list[Manifest] = []
        restored: set[str] = set()
        unusable: set[str] = set()
        current: Manifest | None = head
        while current is not None:
            start, current = current, None
            ref: CheckpointRef | None = None
            for manifest in self._history.newest_first(start):
                if _replaces_everything(manifest):
                    steps.append(cut(manifest))
                    return (), steps
                if checkpoints and (ref is None or ref.sha256 in unusable):
                    ref = manifest.checkpoint
                if ref is not None and ref.snapshot == manifest.snapshot_id and ref.sha256 not in unusable:
                    known = load_checkpoint(self._chain, ref)
                    if known is not None:
                        return known, steps
                    unusable.add(ref.sha256)
                if manifest.restores is not None:
                    if manifest.snapshot_id in restored:
                        raise self._chain.damaged(manifest.snapshot_id, "restores a snapshot after it")
                    restored.add(manifest.snapshot_id)
                    current = self._restored(manifest, manifest.restores)
                    steps.append(manifest)
                    break
                steps.append(cut(manifest))
        return (), steps

    def _defined(self, steps: list[Manifest], head: Manifest) -> list[Manifest]:
        """The manifests, oldest first, each with a reference to the definition of its files.

        Those of 0.1 and Go have none. Theirs is that of a snapshot near them, which may have no visible file.
        """
        if all(manifest.definition is not None for manifest in steps):
            return steps
        current = self._definitions.reference_before(steps[0])
        if current is None:
            # Not the first of these: a restored state is older than the snapshots between it and its restore.
            digests = (manifest.definition for manifest in self._history.up_to(head))
            current = next((digest for digest in digests if digest is not None), None)
        found: list[Manifest] = []
        for manifest in steps:
            current = manifest.definition or current
            if manifest.definition is None and current is not None:
                manifest = msgspec.structs.replace(manifest, x={**(manifest.x or {}), "definition": current})
            found.append(manifest)
        return found

    def _restored(self, manifest: Manifest, snapshot_id: str) -> Manifest:
        """The snapshot that another one restores. It must be older, so that following it comes to an end."""
        found = self._chain.ancestor(snapshot_id, manifest.snapshot_id)
        if found.sequence is not None and (manifest.sequence is None or found.sequence >= manifest.sequence):
            raise self._chain.damaged(manifest.snapshot_id, "restores a snapshot after it")
        return found

    def _rows_of(self, manifest: Manifest, file: FileRef) -> int:
        """The number of rows of one of several files; counted if its codec keeps no statistics."""
        if file.stats is not None:
            return file.stats.row_count
        return count_rows(self._chain.store, file, self._components_of(manifest))


def _as_checkpoint(state: Fold) -> list[Manifest]:
    return list(map(stripped, state.manifests()))


def _replaces_everything(manifest: Manifest) -> bool:
    """Whether its own files are the state. A checkpoint would only repeat them."""
    removes = manifest.removes
    return removes is not None and "" in removes.partitions and manifest.restores is None


def reduced(entries: Iterable[Entry], rows_of: Callable[[Manifest, FileRef], int]) -> list[Manifest]:
    """The snapshots that added these files, each with only those of them that follow each other."""
    found: list[Manifest] = []
    for _, group in groupby(entries, key=lambda entry: id(entry[1])):
        pairs = list(group)
        manifest = pairs[0][1]
        files = tuple(file for file, _ in pairs)
        if len(files) != len(manifest.files) or manifest.row_count == UNKNOWN:
            rows = sum(
                rows_of(manifest, file) if file.stats is None else file.stats.row_count for file in files
            )
            manifest = msgspec.structs.replace(manifest, files=files, row_count=rows)
        found.append(manifest)
    return found


class Fold:
    """Visible files in the order in which they were added."""

    def __init__(
        self, partition_of: Callable[[str], str], rows_of: Callable[[Manifest, FileRef], int]
    ) -> None:
        self._partition_of = partition_of
        self._rows_of = rows_of
        self._files: dict[str, Entry] = {}
        # Paths by partition; None until a partition is first removed.
        self._partitions: dict[str, dict[str, None]] | None = None
        # The partitions inside a partition of fewer keys.
        self._inside: dict[str, list[str]] = {}
        # The number of files that were read from manifests after a checkpoint.
        self.folded = 0

    def __len__(self) -> int:
        return len(self._files)

    @property
    def paths(self) -> set[str]:
        """The paths of all visible files."""
        return set(self._files)

    def add(self, manifest: Manifest) -> None:
        """Add the files of a snapshot."""
        for file in manifest.files:
            self._files[file.path] = (file, manifest)
            if self._partitions is not None:
                self._index(file.path, self._partitions)

    def apply(self, manifest: Manifest) -> list[Entry]:
        """Remove what a snapshot removes, then add its files. Returns what was removed.

        A snapshot that restores another must not be applied: its state is that of the other.
        """
        assert manifest.restores is None
        removes = manifest.removes
        gone = [] if removes is None else self.remove(removes)
        self.add(manifest)
        return gone

    def remove(self, removes: Removes) -> list[Entry]:
        """Remove files, and return them with the snapshots that added them."""
        return [entry for path in self.matching(removes) if (entry := self._drop(path)) is not None]

    def matching(self, removes: Removes) -> list[str]:
        """The visible files that a commit would remove."""
        if "" in removes.partitions:
            return list(self._files)
        found = dict.fromkeys(path for path in removes.files if path in self._files)
        for partition in removes.partitions:
            found |= dict.fromkeys(self._in_partition(canonical_partition(partition)))
        return list(found)

    def removed(self, removes: Removes) -> Removed:
        """How much a commit would remove."""
        files = rows = size = 0
        for path in self.matching(removes):
            file, manifest = self._files[path]
            files += 1
            known = len(manifest.files) == 1 and manifest.row_count != UNKNOWN
            rows += manifest.row_count if known else self._rows_of(manifest, file)
            size += file.size_bytes
        # Foreign counts may add up to more than a manifest can say.
        return Removed(files, min(rows, MAX_COUNT), min(size, MAX_COUNT))

    def manifests(self) -> list[Manifest]:
        """The snapshots that have visible files, each with only these."""
        return reduced(self._files.values(), self._rows_of)

    def less(self, other: Fold) -> list[Entry]:
        """The files that the other state does not have."""
        return [entry for path, entry in self._files.items() if path not in other._files]

    def _drop(self, path: str) -> Entry | None:
        if self._partitions is not None:
            self._partitions.get(self.partition(path), {}).pop(path, None)
        return self._files.pop(path, None)

    def _in_partition(self, partition: str) -> list[str]:
        """The paths in a partition and in those inside it."""
        if self._partitions is None:
            self._partitions = {}
            for path in self._files:
                self._index(path, self._partitions)
        found = list(self._partitions.get(partition, ()))
        for inner in self._inside.get(partition, ()):
            found += self._partitions[inner]
        return found

    def _index(self, path: str, partitions: dict[str, dict[str, None]]) -> None:
        partition = self.partition(path)
        if partition not in partitions:
            partitions[partition] = {}
            for outer in enclosing(partition.rpartition("/")[0]):
                self._inside.setdefault(outer, []).append(partition)
        partitions[partition][path] = None

    def partition(self, path: str) -> str:
        """The partition of a file, in the form in which partitions are compared."""
        return canonical_partition(self._partition_of(path))
