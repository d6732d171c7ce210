"""Columns and the fields inside them have ids, in definitions and as field ids in Parquet files."""

from __future__ import annotations

import io
import json
import pickle
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lode
from lode.change import row_groups
from lode.codec.field_ids import KEY
from lode.codec.parquet import ParquetEncoder
from lode.definition import Column, Definition, check_storable
from lode.evolution import evolve
from lode.store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NESTED = {"id": "int64", "place": "struct<x:float64,tags:list<string>>", "n": "map<string,int64>"}


def ids_of(element: Any) -> dict[str, Any]:
    """The field ids of a Parquet file, by path."""
    return dict(_ids(element, ()))


def _ids(schema: pa.Schema, at: tuple[str, ...]) -> Any:
    for field in schema:
        yield from _field_ids(field, at)


def _field_ids(field: Any, at: tuple[str, ...]) -> Any:
    path = (*at, field.name)
    yield ".".join(path), int((field.metadata or {}).get(KEY, -1))
    kind = field.type
    if pa.types.is_struct(kind):
        for member in kind:
            yield from _field_ids(member, path)
    elif pa.types.is_map(kind):
        yield from _field_ids(kind.key_field, path)
        yield from _field_ids(kind.item_field, path)
    elif hasattr(kind, "value_field"):
        yield from _field_ids(kind.value_field, path)


def file_ids(dataset: lode.Dataset, snapshot: Any = None) -> dict[str, Any]:
    """The field ids of the first file of a snapshot."""
    manifest = (dataset.latest() if snapshot is None else snapshot).manifest
    return ids_of(pq.read_schema(io.BytesIO(dataset.store.get(manifest.files[0].path))))


def types_of(definition: Definition) -> dict[str, Any]:
    return {column.name: column.type for column in definition.columns or ()}


ROW = {"id": 1, "place": {"x": 0.5, "tags": ["a"]}, "n": {"k": 2}}
ALL_IDS = {
    "id": 1,
    "place": 2,
    "n": 3,
    "place.x": 4,
    "place.tags": 5,
    "place.tags.element": 6,
    "n.key": 7,
    "n.value": 8,
}


def test_fields_inside_columns_get_ids_after_the_columns() -> None:
    dataset = lode.Dataset.create("visits", MemoryStore(), schema=NESTED)
    assert dataset.definition.last_column_id == 8
    assert types_of(dataset.definition)["place"] == {
        "struct": [
            {"id": 4, "name": "x", "type": "float64"},
            {"id": 5, "name": "tags", "type": {"list": {"id": 6, "name": "element", "type": "string"}}},
        ]
    }
    inner = types_of(dataset.definition)["n"]["map"]
    assert (inner["key"]["id"], inner["value"]["id"]) == (7, 8)


def test_a_parquet_file_has_the_ids_of_all_columns_and_fields() -> None:
    dataset = lode.Dataset.create("visits", MemoryStore(), schema=NESTED)
    dataset.write([ROW])
    assert file_ids(dataset) == ALL_IDS


def test_the_first_write_of_a_dataset_without_columns_has_ids() -> None:
    dataset = lode.Dataset("visits", MemoryStore(), codec="parquet")
    dataset.write(pa.table({"a": [1], "b": ["x"]}))
    assert file_ids(dataset) == {"a": 1, "b": 2}


def test_a_rename_and_a_new_member_keep_the_ids_of_fields() -> None:
    dataset = lode.Dataset.create("visits", MemoryStore(), schema=NESTED)
    dataset.evolve(rename={"place": "where"}, widen={"where": "struct<x:float64,tags:list<string>,y:int32>"})
    dataset.write([{"id": 1, "where": {"x": 0.5, "tags": ["a"], "y": 3}, "n": {}}])
    found = file_ids(dataset)
    assert {name.replace("where", "place"): id for name, id in found.items() if name != "where.y"} == ALL_IDS
    assert found["where.y"] == 9


def test_a_widened_element_keeps_its_id() -> None:
    dataset = lode.Dataset.create("visits", MemoryStore(), schema={"n": "list<int32>"})
    before = types_of(dataset.definition)["n"]["list"]["id"]
    dataset.evolve(widen={"n": "list<int64>"})
    assert types_of(dataset.definition)["n"]["list"] == {"id": before, "name": "element", "type": "int64"}


def test_ids_of_a_dropped_column_and_of_its_fields_are_not_given_again() -> None:
    dataset = lode.Dataset.create("visits", MemoryStore(), schema=NESTED)
    dataset.evolve(drop=["place"])
    dataset.evolve(add={"place": "struct<x:float64>"})
    dataset.write([{"id": 1, "n": {}, "place": {"x": 1.0}}])
    assert {name: id for name, id in file_ids(dataset).items() if name.startswith("place")} == {
        "place": 9,
        "place.x": 10,
    }


def test_an_evolving_write_has_the_ids_that_its_columns_get() -> None:
    dataset = lode.Dataset.create("visits", MemoryStore(), schema={"id": "int64"})
    dataset.write(pa.table({"id": [1], "s": [{"x": 1}]}), evolve=True)
    assert file_ids(dataset) == {"id": 1, "s": 2, "s.x": 3}
    assert dataset.definition.field_ids is not None
    assert dataset.definition.field_ids["s"].id == 2


def test_two_writers_that_add_columns_both_land_with_the_ids_of_the_dataset() -> None:
    store = MemoryStore()
    one = lode.Dataset.create("visits", store, schema={"id": "int64"})
    other = lode.Dataset("visits", store)
    other.latest()
    one.write(pa.table({"id": [1], "a": [1]}), evolve=True)
    other.write(pa.table({"id": [2], "b": [1]}), evolve=True, on_conflict="append")
    ids = lode.Dataset("visits", store).definition.ids
    assert ids == {"id": 1, "a": 2, "b": 3}
    assert file_ids(other) == {"id": 1, "a": 2, "b": 3}


def test_a_transaction_that_adds_columns_lands_behind_another_that_did_without_ids() -> None:
    store = MemoryStore()
    one = lode.Dataset.create("visits", store, schema={"id": "int64"})
    other = lode.Dataset("visits", store)
    schema = pa.schema([("id", pa.int64()), ("b", pa.int64())])
    with other.transaction(schema=schema, evolve=True, on_conflict="append") as transaction:
        transaction.stage(pa.table({"id": [2], "b": [1]}))
        one.write(pa.table({"id": [1], "a": [1]}), evolve=True)
        transaction.commit()
    assert set(file_ids(other).values()) == {-1}
    assert other.scan().read_all().to_pylist() == [
        {"id": 1, "a": 1, "b": None},
        {"id": 2, "a": None, "b": 1},
    ]


def test_parts_of_a_first_transaction_with_different_columns_land_without_ids() -> None:
    dataset = lode.Dataset("visits", MemoryStore(), codec="parquet")
    with dataset.transaction() as transaction:
        transaction.stage(pa.table({"a": [1], "b": [2]}))
        transaction.stage(pa.table({"b": [3], "c": [4]}))
        transaction.commit()
    for file in dataset.latest().files:
        found = ids_of(pq.read_schema(io.BytesIO(dataset.store.get(file.path))))
        assert set(found.values()) == {-1}


def test_a_definition_without_ids_of_fields_gets_them_when_it_evolves() -> None:
    plain = Definition(
        columns=(Column(1, "s", {"struct": [{"name": "x", "type": "int64"}]}),), last_column_id=1
    )
    assert plain.field_ids is None
    assert plain.schema is not None
    evolved = plain.with_schema(plain.schema.append(pa.field("n", pa.int64())))
    assert evolved.ids == {"s": 1, "n": 2}
    assert types_of(evolved)["s"] == {"struct": [{"id": 3, "name": "x", "type": "int64"}]}


@pytest.mark.parametrize(
    "change", [{"rename": {"n": "m"}}, {"drop": ["n"]}, {"add": {"m": "int64"}}], ids=str
)
def test_every_change_of_columns_gives_all_fields_ids(change: dict[str, Any]) -> None:
    columns = (Column(1, "s", {"struct": [{"name": "x", "type": "int64"}]}), Column(2, "n", "int64"))
    plain = Definition(codec="parquet", columns=columns, last_column_id=2)
    assert evolve(plain, **change).field_ids is not None
    assert evolve(plain, relax=["n"], add={"n": "int64"}) == plain, "what changes nothing gives no ids"


def test_files_of_a_definition_without_ids_of_fields_have_none() -> None:
    columns = (Column(1, "s", {"struct": [{"name": "x", "type": "int64"}]}), Column(2, "n", "int64"))
    plain = Definition(codec="parquet", columns=columns, last_column_id=2)
    assert plain.schema is not None
    codec = lode.Parquet(plain.schema).with_field_ids(plain.field_ids)
    sink = io.BytesIO()
    encoder = codec.stream_encoder(sink)
    encoder.write([{"s": {"x": 1}, "n": 1}])
    encoder.close()
    assert set(ids_of(pq.read_schema(io.BytesIO(sink.getvalue()))).values()) == {-1}


@pytest.mark.parametrize("id", [0, -1, 2**31], ids=str)
def test_an_id_that_parquet_does_not_have_leaves_files_without_ids(id: int) -> None:
    inside = {"struct": [{"id": id, "name": "x", "type": "int64"}]}
    assert Definition(columns=(Column(id, "n", "int64"),)).field_ids is None
    assert Definition(columns=(Column(1, "s", inside),)).field_ids is None


def test_a_definition_that_repeats_an_id_inside_a_column_is_refused() -> None:
    repeated = Definition(
        columns=(Column(1, "s", {"struct": [{"id": 1, "name": "x", "type": "int64"}]}),), last_column_id=1
    )
    with pytest.raises(lode.InvalidOptionError, match="repeat an id"):
        check_storable(repeated)


def test_rewrites_have_ids() -> None:
    dataset = lode.Dataset.create("visits", MemoryStore(), schema=NESTED, primary_key=["id"])
    dataset.write([ROW, {**ROW, "id": 2}])
    dataset.write([{**ROW, "id": 3}])
    changes: list[Callable[[], object]] = [
        lambda: dataset.delete("id = 1"),
        lambda: dataset.merge([{**ROW, "id": 3, "n": None}], on=["id"]),
        lambda: dataset.overwrite([{**ROW, "id": 2}], where="id = 2"),
        lambda: dataset.write([{**ROW, "id": 5}]) and dataset.compact(),
    ]
    for change in changes:
        change()
        assert file_ids(dataset) == ALL_IDS


def test_a_stream_has_ids() -> None:
    dataset = lode.Dataset.create("visits", MemoryStore(), schema={"id": "int64"})
    dataset.stream_write_records({"id": number} for number in range(3))
    assert file_ids(dataset) == {"id": 1}


def test_row_groups_of_a_file_without_ids_are_copied_under_a_footer_with_ids(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(row_groups, "MIN_FILE_BYTES", 1)
    monkeypatch.setattr(row_groups, "MIN_COPIED_ROWS", 1)
    dataset = lode.Dataset.create("visits", MemoryStore(), schema={"id": "int64", "s": "struct<x:int64>"})
    codec = dataset.components.codec
    assert isinstance(codec, lode.Parquet)
    with dataset.transaction() as transaction:
        plain = transaction.stager.components.codec
        assert isinstance(plain, lode.Parquet)
        object.__setattr__(plain, "_stored", None)
        transaction.stage([{"id": 1, "s": {"x": 1}}])
        transaction.commit()
    assert set(file_ids(dataset).values()) == {-1}
    other = lode.Dataset("visits", dataset.store)
    other.write([{"id": 2, "s": None}])
    copied: list[Any] = []
    monkeypatch.setattr(
        "lode.codec.parquet.ParquetEncoder.copy",
        _counting(ParquetEncoder.copy, copied),
    )
    other.compact()
    assert len(copied) == 2
    assert file_ids(other) == {"id": 1, "s": 2, "s.x": 3}
    assert pa.table(other.scan()).to_pylist() == [{"id": 1, "s": {"x": 1}}, {"id": 2, "s": None}]


def _counting(method: Any, calls: list[Any]) -> Any:
    def counted(self: Any, copied: Any) -> None:
        calls.append(copied)
        method(self, copied)

    return counted


def test_no_schema_that_a_reader_sees_has_field_ids(tmp_path: Path) -> None:
    dataset = lode.Dataset.create("visits", tmp_path, schema=NESTED)
    dataset.write([ROW])
    declared = dataset.definition.schema
    assert declared is not None
    for found in (
        pa.table(dataset.scan()).schema,
        dataset.read(dataset.latest()).schema,
        next(iter(dataset.scan(columns=["place"]))).schema,
        dataset.dataset().schema,
        dataset.dataset().to_table().schema,
    ):
        assert set(ids_of(found).values()) == {-1}
    assert pa.table(dataset.scan()).schema.equals(declared, check_metadata=True)
    derived = lode.Dataset("visits", tmp_path).read(dataset.latest())
    assert set(ids_of(derived.schema).values()) == {-1}


def test_field_ids_of_foreign_data_do_not_become_part_of_a_definition() -> None:
    field = pa.field("a", pa.struct([pa.field("x", pa.int64(), metadata={KEY: b"70"})]), metadata={KEY: b"7"})
    dataset = lode.Dataset("visits", MemoryStore(), codec="parquet")
    dataset.write(pa.Table.from_pylist([{"a": {"x": 1}}], schema=pa.schema([field])))
    stored = json.loads(dataset.definition.data)["columns"]
    assert stored == [{"id": 1, "name": "a", "type": {"struct": [{"id": 2, "name": "x", "type": "int64"}]}}]
    assert file_ids(dataset) == {"a": 1, "a.x": 2}


def test_ids_cost_few_bytes_in_a_small_file() -> None:
    columns = {f"column_{number}": "int64" for number in range(20)}
    dataset = lode.Dataset.create("visits", MemoryStore(), schema=columns)
    dataset.write([dict.fromkeys(columns, 1)])
    sink = io.BytesIO()
    encoder = lode.Parquet(columns).stream_encoder(sink)
    encoder.write([dict.fromkeys(columns, 1)])
    encoder.close()
    assert dataset.latest().files[0].size_bytes - len(sink.getvalue()) <= 3 * 20


def test_a_stager_keeps_its_ids_when_it_is_pickled() -> None:
    dataset = lode.Dataset.create("visits", MemoryStore(), schema=NESTED)
    codec = pickle.loads(pickle.dumps(dataset.stager().components.codec))
    assert codec.field_ids == dataset.definition.field_ids
