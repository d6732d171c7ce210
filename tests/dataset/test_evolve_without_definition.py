"""Columns of datasets of 0.1 and Go, which store no definition, can evolve."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import lode

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def without_definition(tmp_path: Path) -> Path:
    """A lake with one row, as 0.1 wrote it."""
    lode.Dataset("d", tmp_path, codec="parquet").write(pa.table({"a": [1], "b": ["x"]}))
    for path in [path for path in tmp_path.rglob("*.json") if path.is_file()]:
        stored = json.loads(path.read_bytes())
        if stored.get("schema_name") == "lode-definition":
            path.unlink()
        elif stored.get("x", {}).pop("definition", None):
            path.write_text(json.dumps(stored))
    return tmp_path


def test_files_from_before_a_rename_keep_their_values(without_definition: Path) -> None:
    lode.open_dataset("d", without_definition).evolve(rename={"a": "c"})
    dataset = lode.open_dataset("d", without_definition)
    assert dataset.scan().read_all().to_pylist() == [{"c": 1, "b": "x"}]


def test_a_column_that_was_dropped_and_added_again_does_not_come_back(without_definition: Path) -> None:
    dataset = lode.open_dataset("d", without_definition)
    dataset.evolve(drop=["a"])
    dataset.evolve(add={"a": "string"})
    assert lode.open_dataset("d", without_definition).scan().read_all().to_pylist() == [{"b": "x", "a": None}]


def test_files_from_before_a_rename_keep_their_values_after_a_delete(without_definition: Path) -> None:
    dataset = lode.open_dataset("d", without_definition)
    dataset.evolve(rename={"a": "c"})
    dataset.write(pa.table({"c": [2, 3], "b": ["y", "z"]}))
    dataset.delete("c = 3")
    rows = lode.open_dataset("d", without_definition).scan().read_all().sort_by("c").to_pylist()
    assert rows == [{"c": 1, "b": "x"}, {"c": 2, "b": "y"}]


def test_files_from_before_a_rename_keep_their_values_when_others_are_removed(
    without_definition: Path,
) -> None:
    dataset = lode.open_dataset("d", without_definition)
    dataset.evolve(rename={"a": "c"})
    since = dataset.write(pa.table({"c": [5], "b": ["y"]}))
    dataset.delete("c = 5")
    assert dataset.scan().read_all().to_pylist() == [{"c": 1, "b": "x"}]
    dataset.delete("c = 1")
    found = dataset.scan(since=since, on_removal="report").read_all().to_pylist()
    assert found == [{"c": 5, "b": "y", "_change": "delete"}, {"c": 1, "b": "x", "_change": "delete"}]
    dataset.restore(1)
    dataset.evolve(rename={"b": "d"})
    assert dataset.scan().read_all().to_pylist() == [{"a": 1, "d": "x"}]
