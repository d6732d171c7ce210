"""The number of files in one snapshot: its manifest, its commit, planning and checking it."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import lode
from benchmarks.scaling.axis import counted, timed
from benchmarks.scaling.places import Places

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.rounds import Sample
    from lode.write.stage import Staged


class FilesAxis:
    """A snapshot of so many files, staged before the commit is measured."""

    name = "files"
    title = "Files of one snapshot"
    x = "files"
    rows = (
        "commit, calls",
        "plan, calls",
        "verify without checksums, calls",
        "manifest, bytes",
        "commit writes, bytes",
        "commit, ms",
        "plan, ms",
    )
    drawn = ("calls", "bytes", "ms")
    notes = (
        "The files are staged before: a call for each. Commit is intent, swap, manifest and, since it is the "
        "dataset's first, the definition.",
    )

    def __init__(self, root: Path) -> None:
        self._places = Places(root)
        self._staged: dict[int, tuple[Staged, ...]] = {}
        self._names = (f"files-{number}" for number in count())

    def measure(self, size: int) -> Sample:
        memory, disk = self._places.memory, self._places.disk
        staged = self._stage(size)
        # A dataset of its own each time, so that a plan finds this one snapshot.
        name = next(self._names)

        transaction = _dataset(name, memory).transaction()
        transaction.add(*staged)
        commit, written, _ = counted(memory, transaction.commit)
        plan, _, _ = counted(memory, lambda: _dataset(name, memory).plan())
        check, _, _ = counted(memory, lambda: lode.verify(_dataset(name, memory), checksums=False))
        manifest = len(memory.get(f"datasets/{name}/snapshots/{transaction.snapshot_id}/manifest.json"))

        on_disk = _dataset(name, disk).transaction()
        on_disk.add(*staged)
        return [
            commit,
            plan,
            check,
            manifest,
            written,
            timed(on_disk.commit, times=1),
            timed(lambda: _dataset(name, disk).plan()),
        ]

    def _stage(self, size: int) -> tuple[Staged, ...]:
        """The files themselves, once: a commit neither reads nor moves them."""
        if size not in self._staged:
            stager = _dataset("files", self._places.memory).stager()
            self._staged[size] = tuple(stager.stage([{"n": number}]) for number in range(size))
        return self._staged[size]


def _dataset(name: str, store: lode.Store) -> lode.Dataset:
    return lode.Dataset(name, store, codec=lode.JSONL(), checksum="xxh3-128")
