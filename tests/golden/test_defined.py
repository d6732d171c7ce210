"""A lake with definitions, as 0.2 wrote it: created, written, evolved twice."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow.compute as pc

import lode

LAKE = Path(__file__).parent / "lakes" / "defined"
ROWS = [
    {"day": "2024-03-01", "city": "Bern", "temperature": 4.5, "note": None},
    {"day": "2024-03-02", "city": "Oslo", "temperature": -1.5, "note": None},
    {"day": "2024-03-02", "city": "Bern", "temperature": 5.0, "note": "gusts"},
]


def test_a_lake_with_definitions_opens_with_its_definition() -> None:
    definition = lode.open_dataset("weather", LAKE).definition
    assert (definition.layout, definition.keys, definition.codec) == ("hive", ("day",), "parquet")
    assert (definition.description, definition.properties) == ("Weather by day", {"owner": "station"})
    assert definition.ids == {"day": 1, "city": 2, "temperature": 3, "note": 5}


def test_a_lake_with_definitions_has_its_rows_under_current_names() -> None:
    dataset = lode.open_dataset("weather", LAKE)
    assert dataset.scan().read_all().to_pylist() == ROWS
    assert dataset.scan(where=pc.field("temperature") < 0).read_all().to_pylist() == ROWS[1:2]
    assert lode.verify(dataset).ok


def test_a_lake_with_definitions_has_the_columns_of_each_snapshot() -> None:
    dataset = lode.open_dataset("weather", LAKE)
    schemas = [dataset.schema_at(snapshot) for snapshot in dataset.snapshots()]
    columns = [schema and schema.names for schema in schemas]
    before = ["day", "city", "celsius", "wind"]
    between = ["day", "city", "temperature", "wind", "note"]
    assert columns == [before, before, between, between, ["day", "city", "temperature", "note"]]
    operations = [snapshot.manifest.operation for snapshot in dataset.snapshots()]
    assert operations == ["create", "append", "evolve", "append", "evolve"]


def test_a_commit_continues_a_lake_with_definitions(tmp_path: Path) -> None:
    shutil.copytree(LAKE, tmp_path / "lake")
    dataset = lode.Dataset("weather", tmp_path / "lake")
    snapshot = dataset.write([{"day": "2024-03-03", "city": "Rome", "temperature": 12.0}])
    assert snapshot.sequence == 6
    assert snapshot.manifest.definition == dataset.snapshots()[4].manifest.definition
    assert dataset.scan().read_all().num_rows == 4
    assert lode.verify(dataset).ok
