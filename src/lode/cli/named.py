"""How people name a snapshot: its id or the start of it, its number, ``latest``, ``latest~2``, a moment."""

from __future__ import annotations

import re
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Final

from lode.errors import InvalidOptionError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lode.dataset import Dataset
    from lode.snapshot import Snapshot, VolumeSnapshot
    from lode.volume import Volume

_LATEST: Final = re.compile(r"latest(?:~(\d+))?")
# Ids are times in nanoseconds: nothing as short as this is one.
_NUMBER: Final = re.compile(r"\d{1,12}")


def snapshot_named(dataset: Dataset, name: str) -> Snapshot:
    """The snapshot somebody means, or ``NotFoundError``."""
    if match := _LATEST.fullmatch(name):
        return _back(dataset, int(match[1] or 0), name)
    if not _NUMBER.fullmatch(name):
        return _by_id(dataset, name)
    newest = dataset.latest()
    steps = dataset.chain.sequence_of(newest.manifest) - int(name)
    if steps < 0 or name.strip("0") == "":
        raise NotFoundError(
            f"dataset {dataset.id!r} has no snapshot number {name}: see lode log {dataset.id}"
        )
    return _back(dataset, steps, name)


def volume_snapshot_named(volume: Volume, name: str) -> VolumeSnapshot:
    """The snapshot of a volume somebody means."""
    if name == "latest":
        return volume.latest()
    history: Sequence[VolumeSnapshot] = volume.snapshots()
    match = _LATEST.fullmatch(name)
    number = len(history) - int(match[1]) if match else int(name) if _NUMBER.fullmatch(name) else None
    if number is None:
        return volume.snapshot(name)
    if not 1 <= number <= len(history):
        raise NotFoundError(f"volume {volume.id!r} has no snapshot {name}: it has {len(history)}")
    return history[number - 1]


def point_named(dataset: Dataset, name: str | None) -> Snapshot | datetime | None:
    """The snapshot or the moment somebody means; None for none."""
    if name is None:
        return None
    when = moment_named(name)
    return snapshot_named(dataset, name) if when is None else when


def moment_named(name: str) -> datetime | None:
    """The moment, if it is one: it has dashes and a colon, as no snapshot has."""
    if "-" not in name or ":" not in name:
        return None
    try:
        moment = datetime.fromisoformat(name)
    except ValueError:
        raise InvalidOptionError(f"{name!r} is no time: write it as 2026-11-15T12:00Z") from None
    if moment.tzinfo is None:
        raise InvalidOptionError(f"{name!r} has no time zone: write {name}Z")
    return moment


def _by_id(dataset: Dataset, name: str) -> Snapshot:
    """The snapshot with this id, or with the only id that begins so."""
    try:
        return dataset.snapshot(name)
    except NotFoundError:
        alike = [snapshot for snapshot in dataset.history() if snapshot.id.startswith(name)]
        if len(alike) > 1:
            raise InvalidOptionError(
                f"{len(alike)} snapshots of dataset {dataset.id!r} begin with {name}: say more of the id"
            ) from None
        if not alike:
            raise
        return alike[0]


def _back(dataset: Dataset, steps: int, name: str) -> Snapshot:
    dataset.latest()  # says so if there is none at all
    found = next(islice(dataset.history(), steps, None), None)
    if found is None:
        raise NotFoundError(f"the history of dataset {dataset.id!r} does not go back as far as {name}")
    return found
