"""Snapshots as users get them: the manifest in Python types, and the report of the commit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from lode.format.manifest import FileRef, Manifest, Removed, group_of, rebases_of, writer_of
from lode.format.volume import BlockRef, VolumeManifest
from lode.times import rfc3339_to_datetime

if TYPE_CHECKING:
    from datetime import datetime

M = TypeVar("M", Manifest, VolumeManifest)


@dataclass(frozen=True, slots=True)
class CommitReport:
    """What it took to commit one snapshot.

    Attributes:
        attempts: How many swaps of the pointer this writer sent; 0 if another writer committed it.
        rebases: How often it was rebased onto commits of others.
        retries: How many retries for overlapping commits it used.
        seconds: The duration of the commit, without the upload of data.
        replayed: True if an earlier commit under the same idempotency key was returned instead.
        group: How many snapshots the same swap committed; 1 if it was committed alone.
        waited: The seconds of ``seconds`` in which it waited for other writers to commit together.
    """

    attempts: int = 0
    rebases: int = 0
    retries: int = 0
    seconds: float = 0.0
    replayed: bool = False
    group: int = 1
    waited: float = 0.0


@dataclass(frozen=True, slots=True, repr=False)
class _AnySnapshot(Generic[M]):
    """What the snapshots of datasets and of volumes have in common.

    ``commit`` is the report of its commit; None on snapshots that were read.
    """

    manifest: M
    commit: CommitReport | None = field(default=None, compare=False)

    @property
    def id(self) -> str:
        """Its id, which begins with the time at which the write began."""
        return self.manifest.snapshot_id

    @property
    def parent_id(self) -> str | None:
        """The id of the snapshot before it; None for the first."""
        return self.manifest.parent_snapshot_id

    @property
    def sequence(self) -> int | None:
        """The position in history, the first being 1; None on snapshots the Go implementation wrote."""
        return self.manifest.sequence

    @property
    def created_at(self) -> datetime:
        """When it was committed, by the clock of its writer, in UTC; always after its parent."""
        return rfc3339_to_datetime(self.manifest.created_at)

    @property
    def metadata(self) -> dict[str, Any]:
        """The JSON object that was given to the write."""
        return self.manifest.metadata

    @property
    def rebases(self) -> int:
        """How often its commit was rebased onto snapshots of other writers."""
        return rebases_of(self.manifest.x)

    @property
    def group(self) -> int:
        """How many snapshots the same swap committed, itself included; 1 if it was committed alone."""
        return group_of(self.manifest.x).size

    @property
    def writer(self) -> str | None:
        """The name of its writer, from ``Dataset(writer=…)`` or the idempotency key, if it has one."""
        return writer_of(self.manifest.x)

    def __hash__(self) -> int:
        return hash(self.id)


@dataclass(frozen=True, slots=True, repr=False)
class Snapshot(_AnySnapshot[Manifest]):
    """An immutable point in a dataset's history."""

    @property
    def files(self) -> tuple[FileRef, ...]:
        """The data files that this snapshot added."""
        return self.manifest.files

    @property
    def row_count(self) -> int:
        """How many rows this snapshot added; a blob counts as one."""
        return self.manifest.row_count

    @property
    def size_bytes(self) -> int:
        """The size of these files on storage."""
        return sum(file.size_bytes for file in self.manifest.files)

    @property
    def operation(self) -> str:
        """What it did: ``append``, ``overwrite``, ``delete``, ``compact``, ``evolve``, and so on."""
        return self.manifest.operation

    @property
    def removed(self) -> Removed:
        """The files it removed from the dataset: how many, and their rows and bytes.

        Rows that were only rewritten are in here and in ``row_count``.
        """
        return self.manifest.removed

    @property
    def min_timestamp(self) -> datetime | None:
        """The earliest time of its rows; None without a timestamp column or ``timestamp()``."""
        return rfc3339_to_datetime(self.manifest.min_timestamp) if self.manifest.min_timestamp else None

    @property
    def max_timestamp(self) -> datetime | None:
        """The latest time of its rows; None without a timestamp column or ``timestamp()``."""
        return rfc3339_to_datetime(self.manifest.max_timestamp) if self.manifest.max_timestamp else None

    __hash__ = _AnySnapshot.__hash__

    def __repr__(self) -> str:
        files = len(self.files)
        return f"Snapshot({self.id!r}, sequence={self.sequence}, rows={self.row_count}, files={files})"


@dataclass(frozen=True, slots=True, repr=False)
class VolumeSnapshot(_AnySnapshot[VolumeManifest]):
    """An immutable state of a volume."""

    @property
    def blocks(self) -> tuple[BlockRef, ...]:
        """All blocks of the volume at this snapshot, in the order of their bytes."""
        return self.manifest.blocks

    @property
    def size_bytes(self) -> int:
        """How many bytes are there; the volume's length less its gaps."""
        return sum(block.length for block in self.manifest.blocks)

    __hash__ = _AnySnapshot.__hash__

    def __repr__(self) -> str:
        return f"VolumeSnapshot({self.id!r}, sequence={self.sequence}, blocks={len(self.blocks)})"
