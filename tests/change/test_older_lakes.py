"""Lakes of 0.1 and Go, which store no definition, can be changed like any other."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lode
from lode.discover import dataset_names

LAKES = Path(__file__).parents[1] / "golden" / "lakes"


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A lake with two files, as 0.1 wrote it."""
    dataset = lode.Dataset("d", tmp_path, codec="parquet")
    dataset.write(pa.table({"a": [1, 2], "b": ["x", "y"]}))
    dataset.write(pa.table({"a": [3], "b": ["z"]}))
    for path in [path for path in tmp_path.rglob("*.json") if path.is_file()]:
        stored = json.loads(path.read_bytes())
        if stored.get("schema_name") == "lode-definition":
            path.unlink()
        elif stored.get("x", {}).pop("definition", None):
            path.write_text(json.dumps(stored))
    return tmp_path


def rows(dataset: lode.Dataset, **options: Any) -> list[Any]:
    return sorted(dataset.scan(**options).read_all().to_pylist(), key=repr)


def test_files_from_before_a_rename_keep_their_values_when_rows_are_deleted(lake: Path) -> None:
    dataset = lode.open_dataset("d", lake)
    dataset.evolve(rename={"a": "c"})
    dataset.write([{"c": 4, "b": "w"}])
    dataset.delete("c = 2")
    expected = [{"c": 1, "b": "x"}, {"c": 3, "b": "z"}, {"c": 4, "b": "w"}]
    assert rows(dataset) == rows(lode.open_dataset("d", lake)) == expected


def test_files_from_before_a_rename_keep_their_values_when_they_are_merged_and_compacted(lake: Path) -> None:
    lode.open_dataset("d", lake).evolve(rename={"a": "c"})
    dataset = lode.open_dataset("d", lake)
    dataset.merge([{"c": 2, "b": "new"}], on=["c"])
    dataset.compact()
    assert rows(dataset) == [{"c": 1, "b": "x"}, {"c": 2, "b": "new"}, {"c": 3, "b": "z"}]


def test_files_without_a_definition_come_back_with_their_columns(lake: Path) -> None:
    dataset = lode.open_dataset("d", lake)
    before = rows(dataset)
    dataset.evolve(rename={"a": "c"})
    dataset.overwrite([{"c": 9, "b": "w"}], everything=True)
    dataset.restore(2)
    assert rows(dataset) == rows(lode.open_dataset("d", lake)) == before
    dataset.evolve(rename={"a": "e"})
    dataset.delete("e = 1")
    assert rows(dataset) == [{"e": 2, "b": "y"}, {"e": 3, "b": "z"}]


def test_a_checkpoint_keeps_under_which_columns_a_file_was_written(lake: Path) -> None:
    dataset = lode.open_dataset("d", lake)
    dataset.evolve(rename={"a": "c"})
    dataset.write([{"c": 4, "b": "w"}])
    dataset.write([{"c": 5, "b": "w"}])
    assert dataset.compact(where="c >= 4").snapshot is not None
    assert list(lake.rglob("state/*"))
    assert sorted(row["c"] for row in rows(lode.open_dataset("d", lake))) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("name", sorted(path.name for path in LAKES.iterdir() if path.name != "volume"))
def test_every_golden_lake_can_be_changed_and_restored(tmp_path: Path, name: str) -> None:
    lake = Path(shutil.copytree(LAKES / name, tmp_path / name))
    for id in dataset_names(lode.open_store(lake)):
        dataset = lode.open_dataset(id, lake)
        if dataset.components.codec is None:
            with pytest.raises(lode.InvalidOptionError, match="blobs"):
                dataset.compact()
            continue
        newest, before = dataset.latest(), rows(dataset)
        dataset.compact()
        assert rows(dataset) == before
        column = dataset.scan().schema.names[0]
        change = dataset.delete(f"{column} IS NOT NULL")
        kept = [row for row in before if row[column] is None]
        assert rows(dataset) == kept
        assert change.rows == len(kept) - len(before)
        assert rows(dataset, as_of=newest) == before
        dataset.restore(newest)
        assert rows(dataset) == rows(lode.open_dataset(id, lake)) == before
        assert lode.verify(dataset).problems == ()
