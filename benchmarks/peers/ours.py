"""Lode itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import lode
from benchmarks.peers.contender import ORIGIN, Appender, Handle, Place

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(slots=True)
class Lode(Appender):
    """A dataset of Parquet files, one commit a write."""

    durable: bool = False

    package = "lode"

    @property
    def name(self) -> str:
        return "Lode, synced" if self.durable else "Lode"

    @property
    def floor(self) -> str:
        return "floor, synced" if self.durable else "floor"

    def create(self, place: Place) -> None:
        """A dataset begins with its first write."""

    def open(self, place: Place) -> Handle:
        return _Handle(self._dataset(place))

    def plan(self, place: Place) -> int:
        return len(self._dataset(place).plan().paths)

    def history(self, place: Place) -> int:
        return sum(1 for _ in self._dataset(place).history())

    def read(self, place: Place) -> pa.Table:
        return self._dataset(place).scan(columns=ORIGIN).read_all()

    def _dataset(self, place: Place) -> lode.Dataset:
        return dataset_at(place, store_at(place, durable=self.durable))


def store_at(place: Place, *, durable: bool) -> lode.Store:
    """The store of a place."""
    if place.endpoint is None:
        return lode.open_store(place.root, durable=durable)
    return lode.open_store(
        place.root,
        endpoint=place.endpoint,
        region="us-east-1",
        access_key_id="test",
        secret_access_key="test",
        client_options={"allow_http": True},
    )


def dataset_at(place: Place, store: lode.Store) -> lode.Dataset:
    """The table of the benchmarks on this store."""
    layout = lode.HiveLayout(place.partition) if place.partition else None
    return lode.Dataset("table", store, codec=lode.Parquet(place.schema), layout=layout)


@dataclass(slots=True)
class _Handle:
    dataset: lode.Dataset

    def append(self, data: pa.Table) -> None:
        self.dataset.write(data)

    def refresh(self) -> None:
        self.dataset.latest()
