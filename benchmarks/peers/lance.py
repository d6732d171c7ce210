"""Lance."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.peers.contender import ORIGIN, Appender, Handle, Place

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(slots=True)
class Lance(Appender):
    """``write_dataset`` on a dataset that is kept open; Lance has no partitions."""

    name = "Lance"
    package = "lance"
    floor = "floor"

    def create(self, place: Place) -> None:
        importlib.import_module("lance").write_dataset(
            place.schema.empty_table(), place.root, storage_options=place.options
        )

    def open(self, place: Place) -> Handle:
        return _Handle(place)

    def plan(self, place: Place) -> int:
        return sum(len(fragment.data_files()) for fragment in _dataset(place).get_fragments())

    def history(self, place: Place) -> int:
        # The first version is the empty table.
        return int(_dataset(place).version) - 1

    def read(self, place: Place) -> pa.Table:
        found: pa.Table = _dataset(place).to_table(columns=ORIGIN)
        return found


def _dataset(place: Place) -> Any:
    return importlib.import_module("lance").dataset(place.root, storage_options=place.options)


class _Handle:
    def __init__(self, place: Place) -> None:
        self._package: Any = importlib.import_module("lance")
        self._options = place.options
        self._dataset = _dataset(place)

    def append(self, data: pa.Table) -> None:
        self._dataset = self._package.write_dataset(
            data, self._dataset, mode="append", storage_options=self._options
        )

    def refresh(self) -> None:
        self._dataset.checkout_latest()
