"""The state of a dataset at a snapshot: every file that it and its ancestors added, less those they removed.

This is the only place that turns a history into visible files. A dataset without removals is its history. Its
definition tells which it is, so that such a dataset costs nothing more.

The state is a sequence of manifests, oldest first, each with only the files that are still visible. So a file
keeps the definition under which it was written.
"""

from __future__ import annotations

import logging
from itertools import groupby
from typing import TYPE_CHECKING, Final

import msgspec

from lode.definition import REMOVALS
from lode.errors import LodeError
from lode.format.manifest import Removed
from lode.format.paths import canonical_partition
from lode.read.checkpoint import encode_checkpoint, load_checkpoint
from lode.read.files import count_rows
from lode.read.lazy_history import LazyHistory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lode.codec.components import Components
    from lode.format.manifest import FileRef, Manifest, Removes
    from lode.read.define import Definitions
    from lode.read.history import History
    from lode.read.resolve import Chain

logger = logging.getLogger("lode.history")

# Sequences at which a checkpoint is written once a dataset has removals.
CHECKPOINT_STEP: Final = 256
# A state up to this size is always worth a checkpoint.
MIN_CHECKPOINT_FILES: Final = 1_000


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

    def at(self, head: Manifest | None) -> LazyHistory:
        """The visible files at a snapshot."""
        if head is None or REMOVALS not in self._definitions.at(head).features:
            return self._history.up_to(head)
        return LazyHistory(self.fold(head).manifests())

    def fold(self, head: Manifest) -> Fold:
        """The files at a snapshot, ready to be changed by later snapshots."""
        checkpoint, base, steps = self._since_checkpoint(head)
        state = Fold(self._partition_of, self._rows_of)
        for manifest in base:
            state.add(manifest)
        if checkpoint is not None:
            state.follow(checkpoint)
        for manifest in reversed(steps):
            state.apply(manifest)
        state.folded = sum(len(manifest.files) for manifest in steps)
        return state

    def write_checkpoint(self, head: Manifest) -> None:
        """Write a checkpoint, best effort, unless it is large compared with what it saves reading."""
        try:
            if REMOVALS not in self._definitions.at(head).features:
                return
            state = self.fold(head)
            if len(state) > max(MIN_CHECKPOINT_FILES, 4 * state.folded):
                return
            data = encode_checkpoint(head.snapshot_id, state.manifests())
            self._chain.store.put(self._chain.paths.state(head.snapshot_id), data)
        except LodeError as error:
            logger.debug("%s: no checkpoint at %s: %s", self._chain.name, head.snapshot_id, error)

    def _since_checkpoint(self, head: Manifest) -> tuple[Manifest | None, Iterable[Manifest], list[Manifest]]:
        """The newest snapshot with a checkpoint, its state, and the manifests after it, newest first."""
        steps: list[Manifest] = []
        restored: set[str] = set()
        current: Manifest | None = head
        while current is not None:
            start, current = current, None
            for manifest in self._history.newest_first(start):
                if is_checkpoint(manifest):
                    known = load_checkpoint(self._chain, manifest.snapshot_id)
                    if known is not None:
                        return manifest, known, steps
                if manifest.restores is not None:
                    if manifest.snapshot_id in restored:
                        raise self._chain.damaged(manifest.snapshot_id, "restores a snapshot after it")
                    restored.add(manifest.snapshot_id)
                    current = self._chain.ancestor(manifest.restores, manifest.snapshot_id)
                    break
                steps.append(manifest)
                removes = manifest.removes
                if removes is not None and "" in removes.partitions:
                    return None, (), steps
        return None, (), steps

    def _rows_of(self, manifest: Manifest, file: FileRef) -> int:
        """The number of rows of one of several files; counted if its codec keeps no statistics."""
        if file.stats is not None:
            return file.stats.row_count
        return count_rows(self._chain.store, file, self._components_of(manifest))


def is_checkpoint(manifest: Manifest) -> bool:
    """Tell whether there may be a checkpoint of this snapshot."""
    on_step = manifest.sequence is not None and manifest.sequence % CHECKPOINT_STEP == 0
    return on_step or not manifest.is_append


class Fold:
    """Visible files in the order in which they were added."""

    def __init__(
        self, partition_of: Callable[[str], str], rows_of: Callable[[Manifest, FileRef], int]
    ) -> None:
        self._partition_of = partition_of
        self._rows_of = rows_of
        self._files: dict[str, tuple[FileRef, Manifest]] = {}
        # Paths by partition; None until a partition is first removed.
        self._partitions: dict[str, dict[str, None]] | None = None
        # Snapshots of Go and 0.1 refer to no definition: theirs is the nearest before them, or the first one.
        self._definition: str | None = None
        self._first_definition: str | None = None
        self._definitions: dict[str, str | None] = {}
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
        self.follow(manifest)
        for file in manifest.files:
            self._files[file.path] = (file, manifest)
            if self._partitions is not None:
                self._partitions.setdefault(self._partition(file.path), {})[file.path] = None

    def follow(self, manifest: Manifest) -> None:
        """Take note of the definition at a snapshot."""
        digest = manifest.definition
        if digest is None:
            self._definitions[manifest.snapshot_id] = self._definition
        else:
            self._definition = digest
            self._first_definition = self._first_definition or digest

    def apply(self, manifest: Manifest) -> list[tuple[FileRef, Manifest]]:
        """Remove what a snapshot removes, then add its files. Returns what was removed.

        A snapshot that restores another must not be applied: its state is that of the other.
        """
        assert manifest.restores is None
        removes = manifest.removes
        gone = [] if removes is None else self.remove(removes)
        self.add(manifest)
        return gone

    def remove(self, removes: Removes) -> list[tuple[FileRef, Manifest]]:
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
            rows += manifest.row_count if len(manifest.files) == 1 else self._rows_of(manifest, file)
            size += file.size_bytes
        return Removed(files, rows, size)

    def manifests(self) -> list[Manifest]:
        """The snapshots that have visible files, each with only these."""
        found: list[Manifest] = []
        for _, entries in groupby(self._files.values(), key=lambda entry: id(entry[1])):
            pairs = list(entries)
            manifest = pairs[0][1]
            files = tuple(file for file, _ in pairs)
            if len(files) != len(manifest.files):
                manifest = self._only(manifest, files)
            found.append(self._defined(manifest))
        return found

    def _defined(self, manifest: Manifest) -> Manifest:
        """The manifest with a reference to its definition: the snapshots that tell may be left out."""
        if manifest.definition is not None:
            return manifest
        digest = self._definitions.get(manifest.snapshot_id) or self._first_definition
        if digest is None:
            return manifest
        return msgspec.structs.replace(manifest, x={**(manifest.x or {}), "definition": digest})

    def _only(self, manifest: Manifest, files: tuple[FileRef, ...]) -> Manifest:
        rows = sum(
            self._rows_of(manifest, file) if file.stats is None else file.stats.row_count for file in files
        )
        return msgspec.structs.replace(manifest, files=files, row_count=rows)

    def _drop(self, path: str) -> tuple[FileRef, Manifest] | None:
        if self._partitions is not None:
            self._partitions.get(self._partition(path), {}).pop(path, None)
        return self._files.pop(path, None)

    def _in_partition(self, partition: str) -> list[str]:
        """The paths in a partition and in those inside it."""
        if self._partitions is None:
            self._partitions = {}
            for path in self._files:
                self._partitions.setdefault(self._partition(path), {})[path] = None
        found = list(self._partitions.get(partition, ()))
        inside = f"{partition}/"
        for other, paths in self._partitions.items():
            if other.startswith(inside):
                found += paths
        return found

    def _partition(self, path: str) -> str:
        return canonical_partition(self._partition_of(path))
