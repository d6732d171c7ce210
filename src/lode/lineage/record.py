"""The lineage of a snapshot: the input snapshots that its metadata names.

A history is one line, so a run of it is named by its two ends, however many snapshots lie between.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from lode.errors import InvalidMetadataError
from lode.lineage.position import Position

if TYPE_CHECKING:
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


class Lineage(msgspec.Struct, frozen=True):
    """By what a snapshot was made, and from what.

    ``inputs`` were read once and are used up; ``tables`` were read whole, as they were then. ``steps`` is the
    digest of the steps of a pipeline, and ``changed_after`` the newest snapshot that other steps made, if
    rows of it or of earlier ones may still be in the dataset. Streams and imports have only ``made_by``:
    Spark does not say what they read.
    """

    made_by: str
    inputs: tuple[Input, ...] = ()
    tables: dict[str, Input] = {}
    steps: str = ""
    changed_after: str | None = None

    def as_metadata(self) -> dict[str, Any]:
        return {KEY: msgspec.to_builtins(self)}


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
