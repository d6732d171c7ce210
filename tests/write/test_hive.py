"""Partitions: which folder a row goes to, and that every row comes back."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lode
from lode.codec import to_schema
from lode.format.manifest import decode_manifest
from lode.store import MemoryStore

if TYPE_CHECKING:
    from lode.store import CountingStore

NULL = "__HIVE_DEFAULT_PARTITION__"


def by_region(store: lode.Store, codec: Any = "jsonl") -> lode.Dataset:
    return lode.Dataset("events", store, codec=codec, layout=lode.HiveLayout("region"))


def partitions(snapshot: lode.Snapshot) -> list[str]:
    root = "datasets/events/partitions/"
    return [file.path.removeprefix(root).partition("/segments/")[0] for file in snapshot.files]


@pytest.mark.parametrize(
    ("value", "folder"),
    [
        ("eu/west 1", "eu%2Fwest%201"),
        ("a=b", "a=b"),
        ("a:b", "a:b"),
        ("a@b", "a@b"),
        ("a&b", "a&b"),
        ("a+b", "a+b"),
        ("a$b", "a$b"),
        ("zürich", "z%C3%BCrich"),
        ("東京", "%E6%9D%B1%E4%BA%AC"),
        ("..", ".."),
        (".", "."),
        ("%", "%25"),
        ("%2F", "%252F"),
        ("a\\b", "a%5Cb"),
        ("nul\0", "nul%00"),
        ("segments", "segments"),
        ("2026-01-02", "2026-01-02"),
        (date(2026, 1, 2), "2026-01-02"),
        (datetime(2026, 1, 2, 23, 59, tzinfo=UTC), "2026-01-02"),
        (True, "true"),
        (False, "false"),
        (42, "42"),
        (-1, "-1"),
        (1.5, "1.5"),
        (2.0, "2"),
        (None, NULL),
        ("", NULL),
    ],
)
def test_a_value_has_its_folder_and_its_row_comes_back(store: CountingStore, value: Any, folder: str) -> None:
    dataset = by_region(store)
    snapshot = dataset.write([{"region": value, "id": 1}])
    assert partitions(snapshot) == [f"region={folder}"]
    (row,) = dataset.read(snapshot)
    assert row["id"] == 1
    assert lode.DatasetReader(store, layout=dataset.layout).list_partitions("events") == [f"region={folder}"]
    if isinstance(value, str | int | float | None):
        assert row["region"] == value


@pytest.mark.parametrize(
    ("values", "folders"),
    [
        (pa.array(["eu/west 1", None, "", "us"]), ["eu%2Fwest%201", "us", NULL]),
        (pa.array([1, -2, None]), ["-2", "1", NULL]),
        (pa.array([True, False, None]), [NULL, "false", "true"]),
        (pa.array([1.5, 2.0, None]), ["1.5", "2", NULL]),
        (pa.array([date(2026, 1, 2), None]), ["2026-01-02", NULL]),
        (pa.array(["a", "b", "a"]).dictionary_encode(), ["a", "b"]),
        (
            pa.array([datetime(2026, 1, 2, 1), datetime(2026, 1, 2, 23), datetime(2026, 1, 3), None]),
            ["2026-01-02", "2026-01-03", NULL],
        ),
    ],
)
@pytest.mark.parametrize("codec", ["parquet", "arrow"])
def test_arrow_columns_of_many_types_partition_by_value(
    memory: CountingStore, values: pa.Array[Any], folders: list[str], codec: str
) -> None:
    dataset = by_region(memory, codec)
    table = pa.table({"id": range(len(values)), "region": values})
    snapshot = dataset.write(table)
    assert sorted(partitions(snapshot)) == sorted(f"region={folder}" for folder in folders)
    assert dataset.read(snapshot).sort_by("id").to_pylist() == table.to_pylist()


def test_a_timestamp_stands_for_its_day_in_its_own_zone(memory: CountingStore) -> None:
    zone = pa.array([datetime(2026, 1, 1, 23, 30, tzinfo=UTC)]).cast(pa.timestamp("us", "Europe/Berlin"))
    assert partitions(by_region(memory, "parquet").write(pa.table({"region": zone}))) == ["region=2026-01-02"]
    local = datetime(2026, 1, 2, 0, 30, tzinfo=timezone(timedelta(hours=1)))
    assert partitions(by_region(MemoryStore()).write([{"region": local}])) == ["region=2026-01-02"]


@dataclass
class Record:
    region: str
    id: int


class Struct(msgspec.Struct):
    region: str
    id: int


@pytest.mark.parametrize("kind", [Record, Struct])
def test_records_that_are_objects_are_partitioned_by_their_attributes(
    memory: CountingStore, kind: Any
) -> None:
    snapshot = by_region(memory).write([kind("eu", 1), kind("us", 2), kind("eu", 3)])
    assert partitions(snapshot) == ["region=eu", "region=us"]


def test_several_keys_nest(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store, codec="jsonl", layout=lode.HiveLayout("day", "region"))
    rows = [{"day": date(2026, 1, 1 + n % 2), "region": "ab"[n // 2], "id": n} for n in range(4)]
    assert partitions(dataset.write(rows)) == [
        "day=2026-01-01/region=a",
        "day=2026-01-01/region=b",
        "day=2026-01-02/region=a",
        "day=2026-01-02/region=b",
    ]


def test_rows_keep_their_order_within_a_partition(memory: CountingStore) -> None:
    dataset = by_region(memory, "parquet")
    table = pa.table({"region": ["a", "b"] * 500, "id": range(1000)})
    ids = [row["id"] for row in dataset.read(dataset.write(table)).to_pylist()]
    assert ids == [*range(0, 1000, 2), *range(1, 1000, 2)]


def test_each_partition_has_one_file_and_a_copy_of_the_manifest(store: CountingStore) -> None:
    dataset = by_region(store)
    snapshot = dataset.write([{"region": "eu"}, {"region": "us"}])
    for region in ("eu", "us"):
        folder = f"datasets/events/partitions/region={region}/segments/{snapshot.id}"
        copy = decode_manifest(store.get(f"{folder}/manifest.json"), folder)
        assert (copy.snapshot_id, copy.partition) in ((snapshot.id, None), (snapshot.id, f"region={region}"))
        assert f"{folder}/data/data.jsonl" in [file.path for file in copy.files]
        assert store.exists(f"{folder}/data/data.jsonl")


@pytest.mark.parametrize("data", [pa.table({"id": [1]}), [{"id": 1}]], ids=["Arrow", "dicts"])
def test_data_without_the_partition_column_is_refused_by_its_name(memory: CountingStore, data: Any) -> None:
    """A null is a value one writes; a column that no record has is a mistake."""
    codec = "jsonl" if isinstance(data, list) else "parquet"
    with pytest.raises(lode.SchemaViolationError, match="no column 'region'"):
        by_region(memory, codec).write(data)
    assert memory.counts["put"] == 0


def test_a_value_that_cannot_name_a_folder_is_refused(memory: CountingStore) -> None:
    with pytest.raises(lode.SchemaViolationError, match="partition column 'region' holds a list"):
        by_region(memory).write([{"region": ["eu"]}])
    assert memory.counts["put"] == 0


def test_a_partitioned_write_of_nothing_is_a_snapshot_without_files(memory: CountingStore) -> None:
    dataset = by_region(memory)
    snapshot = dataset.write([])
    assert (snapshot.files, snapshot.row_count, dataset.read(snapshot)) == ((), 0, [])


def test_writers_of_different_partitions_do_not_conflict(store: CountingStore) -> None:
    ours = by_region(store)
    ours.write([{"region": "eu", "id": 1}])
    by_region(store).write([{"region": "us", "id": 2}])
    snapshot = ours.write([{"region": "eu", "id": 3}])
    assert snapshot.commit is not None
    assert snapshot.commit.rebases == 1
    assert [s.sequence for s in ours.snapshots()] == [1, 2, 3]


def test_writers_of_one_partition_conflict_and_the_error_names_it(store: CountingStore) -> None:
    ours = by_region(store)
    ours.write([{"region": "eu", "id": 1}])
    by_region(store).write([{"region": "eu/west 1", "id": 2}, {"region": "us", "id": 2}])
    by_region(store).write([{"region": "asia", "id": 2}])
    with pytest.raises(lode.SnapshotConflictError, match="partition region=us"):
        ours.write([{"region": "us", "id": 3}])


KEYS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**53), 2**53),
    st.text(st.characters(codec="utf-8"), max_size=6),
    st.sampled_from(["..", ".", "%", "a/b", "segments", "a=b", NULL, "0"]),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(KEYS, KEYS), max_size=12))
def test_any_values_group_their_rows_and_all_rows_come_back(keys: list[tuple[Any, Any]]) -> None:
    layout = lode.HiveLayout("a", "b")
    dataset = lode.Dataset("events", MemoryStore(), codec="jsonl", layout=layout)
    rows = [{"a": a, "b": b, "n": number} for number, (a, b) in enumerate(keys)]
    snapshot = dataset.write(rows)
    assert sorted(dataset.read(snapshot), key=lambda row: row["n"]) == rows
    groups: dict[str, list[int]] = defaultdict(list)
    for row in rows:
        groups["/".join(f"{key}={_folder(row[key])}" for key in "ab")].append(row["n"])
    found = {
        layout.partition_of("events", file.path): [
            msgspec.json.decode(line)["n"] for line in dataset.store.get(file.path).splitlines()
        ]
        for file in snapshot.files
    }
    assert found == groups
    listed = lode.DatasetReader(dataset.store, layout=layout).list_partitions("events")
    assert listed == sorted(groups, key=lambda partition: f"{partition}/segments/")


def _folder(value: Any) -> str:
    if value is None or value == "":
        return NULL
    return quote(str(value).lower() if isinstance(value, bool) else str(value), safe="$&+=:@")


ARROW_KEYS = st.tuples(st.none() | st.integers(0, 3), st.none() | st.sampled_from(["", "x", "é/"]))


@settings(max_examples=40, deadline=None)
@given(st.lists(ARROW_KEYS, max_size=20))
def test_arrow_data_groups_as_records_do(keys: list[tuple[int | None, str | None]]) -> None:
    layout = lode.HiveLayout("a", "b")
    rows = [{"a": a, "b": b, "n": number} for number, (a, b) in enumerate(keys)]
    schema = to_schema({"a": "int64", "b": "string", "n": "int64"})
    plain = lode.Dataset("events", MemoryStore(), codec="jsonl", layout=layout)
    arrow = lode.Dataset("events", MemoryStore(), codec="arrow", layout=layout)
    by_records = partitions(plain.write(rows))
    snapshot = arrow.write(pa.Table.from_pylist(rows, schema=schema))
    assert partitions(snapshot) == by_records
    if rows:
        assert arrow.read(snapshot).sort_by("n").to_pylist() == rows
