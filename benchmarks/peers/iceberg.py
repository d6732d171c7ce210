"""Iceberg through PyIceberg with its SQLite catalog."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.peers.contender import ORIGIN, Appender, Handle, Place

if TYPE_CHECKING:
    import pyarrow as pa

_TABLE = "bench.table"


@dataclass(slots=True)
class Iceberg(Appender):
    """``table.append`` on a table that is kept open."""

    name = "Iceberg"
    package = "pyiceberg"
    floor = "floor"

    def create(self, place: Place) -> None:
        catalog = _catalog(place)
        catalog.create_namespace("bench")
        table = catalog.create_table(_TABLE, schema=place.schema)
        if place.partition:
            with table.update_spec() as update:
                update.add_identity(place.partition)

    def open(self, place: Place) -> Handle:
        return _Handle(place)

    def plan(self, place: Place) -> int:
        return len(list(_catalog(place).load_table(_TABLE).scan().plan_files()))

    def history(self, place: Place) -> int:
        return len(_catalog(place).load_table(_TABLE).history())

    def read(self, place: Place) -> pa.Table:
        found: pa.Table = _catalog(place).load_table(_TABLE).scan(selected_fields=tuple(ORIGIN)).to_arrow()
        return found


class _Handle:
    def __init__(self, place: Place) -> None:
        self._table = _catalog(place).load_table(_TABLE)

    def append(self, data: pa.Table) -> None:
        self._table.append(data)

    def refresh(self) -> None:
        self._table.refresh()


def _catalog(place: Place) -> Any:
    options = {
        "uri": f"sqlite:///{place.local}/catalog.db",
        "warehouse": place.root if place.endpoint else f"file://{place.root}",
    }
    if place.endpoint:
        options |= {
            "s3.endpoint": place.endpoint,
            "s3.region": "us-east-1",
            "s3.access-key-id": "test",
            "s3.secret-access-key": "test",
            "py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO",
        }
    return importlib.import_module("pyiceberg.catalog.sql").SqlCatalog("bench", **options)
