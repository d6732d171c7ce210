"""The lineage of a snapshot: the input snapshots that its metadata names.

A history is one line, so a run of it is named by its two ends, however many snapshots lie between.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from lode.errors import InvalidMetadataError
from lode.lineage.position import Position
from lode.read.which import ExactId
from lode.units import count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lode.dataset import Dataset
    from lode.snapshot import Snapshot

KEY: Final = "lineage"


class Input(msgspec.Struct, frozen=True, omit_defaults=True):
    """The snapshots of one dataset after ``after``, up to and including ``up_to``."""

    store: str
    dataset: str
    after: Position
    up_to: Position
    # Of several inputs, how the steps refer to it.
    name: str = ""

    @property
    def snapshots(self) -> int:
        return self.up_to.sequence - self.after.sequence


class Source(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something that was read and is no dataset: files, or a range of offsets of a stream.

    ``name`` is the folder of the files, or the number of the source in its query. ``paths`` are the first of
    the files. ``after`` and ``up_to`` are offsets as Spark writes them, shortened if they are long.
    """

    name: str
    files: int = 0
    paths: tuple[str, ...] = ()
    after: str = ""
    up_to: str = ""

    @property
    def words(self) -> str:
        """It in words."""
        if self.up_to:
            return f"{self.name} {f'after {self.after} ' if self.after else ''}up to {self.up_to}"
        return f"{count(self.files, 'file')} in {self.name}"


class Lineage(msgspec.Struct, frozen=True):
    """By what a snapshot was made, and from what.

    ``inputs`` were read once and are used up; ``tables`` were read whole, as they were then. ``steps`` is the
    digest of the steps of a pipeline, and ``changed_after`` the newest snapshot that other steps made, if
    rows of it or of earlier ones may still be in the dataset. ``sources`` are what imports and streams have
    read beside datasets, as far as Spark says it, and ``batch`` is the micro-batch of a stream.
    """

    made_by: str
    inputs: tuple[Input, ...] = ()
    tables: dict[str, Input] = {}
    steps: str = ""
    changed_after: str | None = None
    sources: tuple[Source, ...] = ()
    batch: int | None = None

    def as_metadata(self) -> dict[str, Any]:
        stored: dict[str, Any] = msgspec.to_builtins(self)
        for name in ("sources", "batch"):  # only some snapshots have them
            if stored[name] in ([], (), None):
                del stored[name]
        return {KEY: stored}

    @property
    def maker(self) -> str:
        """By what, with the batch."""
        return self.made_by if self.batch is None else f"{self.made_by} batch {self.batch:,}"


def history_of(dataset: Dataset, as_of: str | None = None) -> Iterator[Snapshot]:
    """The snapshots whose work is still in a dataset, newest first.

    After one that restores an earlier snapshot come that one and those before it.
    """
    history = dataset.history(as_of=as_of)
    while True:
        for snapshot in history:
            yield snapshot
            if snapshot.manifest.restores is not None:
                history = dataset.history(as_of=ExactId(snapshot.manifest.restores))
                break
        else:
            return


def lineage_of(snapshot: Snapshot) -> Lineage | None:
    """Return the lineage in a snapshot's metadata; None if there is none."""
    stored = snapshot.metadata.get(KEY)
    if stored is None:
        return None
    try:
        return msgspec.convert(stored, Lineage)
    except msgspec.ValidationError as error:
        raise InvalidMetadataError(f"the lineage of {snapshot} cannot be read: {error}") from None


def input_of(dataset: Dataset, after: Position, up_to: Position, name: str = "") -> Input:
    return Input(dataset.store.url, dataset.id, after, up_to, name)
