"""Delta Lake through delta-rs."""

from __future__ import annotations

import importlib
import json
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.peers.contender import ORIGIN

if TYPE_CHECKING:
    import pyarrow as pa

    from benchmarks.peers.contender import Handle, Place


@dataclass(frozen=True, slots=True)
class Delta:
    """``write_deltalake`` on a table that is kept open."""

    name = "Delta"
    package = "deltalake"
    floor = "floor"
    by_hand = True

    def create(self, place: Place) -> None:
        importlib.import_module("deltalake").DeltaTable.create(
            place.root,
            schema=place.schema,
            partition_by=[place.partition] if place.partition else None,
            storage_options=place.options,
        )

    def open(self, place: Place) -> Handle:
        return _Handle(place)

    def plan(self, place: Place) -> int:
        return len(_table(place).file_uris())

    def history(self, place: Place) -> int:
        return int(_table(place).version())

    def read(self, place: Place) -> pa.Table:
        found: pa.Table = _table(place).to_pyarrow_table(columns=ORIGIN)
        return found

    def build(self, place: Place, data: pa.Table, start: int, stop: int) -> None:
        """Write the log by hand, and the last checkpoint where the library would: every 100 commits."""
        if start == 0:
            _Handle(place).append(data)
        log = Path(place.root, "_delta_log")
        sample = json.loads((log / f"{1:020d}.json").read_text().splitlines()[0])
        add = sample if "add" in sample else _add_of(log / f"{1:020d}.json")
        last = stop - stop % 100
        for commit in range(max(start, 1) + 1, stop + 1):
            add["add"]["path"] = f"part-{uuid.uuid4()}.parquet"
            info = {"commitInfo": {"timestamp": int(time.time() * 1000), "operation": "WRITE"}}
            (log / f"{commit:020d}.json").write_text(f"{json.dumps(add)}\n{json.dumps(info)}\n")
            if commit == last:
                importlib.import_module("deltalake").DeltaTable(place.root).create_checkpoint()


def _table(place: Place) -> Any:
    return importlib.import_module("deltalake").DeltaTable(place.root, storage_options=place.options)


def _add_of(commit: Path) -> dict[str, Any]:
    actions: list[dict[str, Any]] = [json.loads(line) for line in commit.read_text().splitlines()]
    return next(action for action in actions if "add" in action)


class _Handle:
    def __init__(self, place: Place) -> None:
        self._package: Any = importlib.import_module("deltalake")
        self._table = _table(place)
        self._properties = self._package.WriterProperties(compression="ZSTD")

    def append(self, data: pa.Table) -> None:
        self._package.write_deltalake(self._table, data, mode="append", writer_properties=self._properties)

    def refresh(self) -> None:
        self._table.update_incremental()
