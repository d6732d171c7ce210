"""Parquet that both read: every type of Go's, both ways, and what is refused because Go would misread it."""

from __future__ import annotations

import base64
import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import lode

if TYPE_CHECKING:
    from pathlib import Path

    from support.real_go import GoProcess

AT = datetime(2026, 11, 18, 12, 30, 1, 234567, tzinfo=UTC)
# In an order that is not that of the names.
OF_GO = {
    "whole": "int64",
    "small": "int32",
    "single": "float32",
    "double": "float64",
    "text": "string",
    "flag": "bool",
    "raw": "bytes",
    "at": "timestamp",
}
OF_PYTHON = OF_GO
ROWS: list[dict[str, Any]] = [
    {
        "whole": -(2**63),
        "small": -(2**31),
        "single": -1.5,
        "double": -math.pi,
        "text": "é\n",
        "flag": True,
        "raw": b"\x00\xff",
        "at": AT,
    },
    {
        "whole": 2**53 + 1,
        "small": 2**31 - 1,
        "single": 0.0,
        "double": 1e300,
        "text": "",
        "flag": False,
        "raw": b"",
        "at": datetime(1700, 1, 1, tzinfo=UTC),
    },
    dict.fromkeys(OF_GO),
]


def as_json(row: dict[str, Any]) -> dict[str, Any]:
    """A row as the driver takes and gives it."""
    return {name: _as_json(value) for name, value in row.items()}


def _as_json(value: Any) -> Any:
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case datetime():
            return f"{value:%Y-%m-%dT%H:%M:%S.%f}".rstrip("0").rstrip(".") + "Z"
    return value


def rows(lake: Path, snapshot_id: str) -> list[dict[str, Any]]:
    """The rows of a snapshot. Python's times have microseconds."""
    table = lode.open_dataset("events", lake).read(snapshot_id)
    at = table.schema.get_field_index("at")
    assert table.schema.field(at).type == pa.timestamp("ns", tz="UTC")
    found: list[dict[str, Any]] = table.set_column(
        at, "at", table["at"].cast(pa.timestamp("us", tz="UTC"))
    ).to_pylist()
    return found


def test_go_reads_every_type_that_python_writes(go: GoProcess, tmp_path: Path) -> None:
    dataset = lode.Dataset.create("events", tmp_path, schema=OF_PYTHON, shared_with_go=True)
    written = dataset.write(ROWS)
    assert go.dataset(tmp_path, codec="parquet", fields=OF_GO).read(written.id) == [
        as_json(row) for row in ROWS
    ]


def test_python_reads_every_type_that_go_writes(go: GoProcess, tmp_path: Path) -> None:
    written = go.dataset(tmp_path, codec="parquet", fields=OF_GO).write([as_json(row) for row in ROWS])
    assert rows(tmp_path, written) == ROWS


def test_required_columns_are_equal_both_ways(go: GoProcess, tmp_path: Path) -> None:
    required = {name: f"{kind}!" for name, kind in OF_GO.items()}
    dataset = lode.Dataset.create("events", tmp_path, schema=required, shared_with_go=True)
    ours = dataset.write(ROWS[:2])
    theirs = go.dataset(tmp_path, codec="parquet", fields=required)
    assert theirs.read(ours.id) == [as_json(row) for row in ROWS[:2]]
    written = theirs.write([as_json(row) for row in ROWS[:2]])
    assert rows(tmp_path, written) == ROWS[:2]


def test_python_continues_what_go_began_and_go_reads_it(go: GoProcess, tmp_path: Path) -> None:
    theirs = go.dataset(tmp_path, codec="parquet", fields=OF_GO)
    theirs.write([as_json(ROWS[0])])
    ours = lode.open_dataset("events", tmp_path).write(ROWS)
    assert theirs.read(ours.id) == [as_json(row) for row in ROWS]


def test_columns_are_sorted_by_name_and_timestamps_have_nanoseconds(tmp_path: Path) -> None:
    dataset = lode.Dataset.create(
        "events",
        tmp_path,
        schema={"price": "int64", "at": "timestamp", "amount": "int64"},
        shared_with_go=True,
    )
    assert dataset.definition.schema == pa.schema(
        [("amount", pa.int64()), ("at", pa.timestamp("ns", tz="UTC")), ("price", pa.int64())]
    )
    assert dataset.definition.shared_with_go


def test_without_the_profile_go_takes_one_column_for_another(go: GoProcess, tmp_path: Path) -> None:
    """What the profile is for: the values of both columns are exchanged."""
    columns = {"price": "int64", "amount": "int64"}
    plain = lode.Dataset.create("plain", tmp_path, schema=columns).write([{"price": 100, "amount": 3}])
    shared = lode.Dataset.create("shared", tmp_path, schema=columns, shared_with_go=True)
    right = shared.write([{"price": 100, "amount": 3}])
    assert go.dataset(tmp_path, "plain", codec="parquet", fields=columns).read(plain.id) == [
        {"price": 3, "amount": 100}
    ]
    assert go.dataset(tmp_path, "shared", codec="parquet", fields=columns).read(right.id) == [
        {"price": 100, "amount": 3}
    ]


@pytest.mark.parametrize(
    "kind", ["list<string>", "struct<a:int64>", "map<string,int64>", "decimal(10,2)", "date", "time"]
)
def test_a_type_that_go_does_not_have_is_refused_when_the_dataset_is_created(
    tmp_path: Path, kind: str
) -> None:
    with pytest.raises(lode.InvalidOptionError, match=r"column 'x' is .*, which Go does not have"):
        lode.Dataset.create("events", tmp_path, schema={"x": kind}, shared_with_go=True)
    assert not lode.Dataset("events", tmp_path).exists


def test_a_shared_dataset_of_parquet_needs_its_columns(tmp_path: Path) -> None:
    with pytest.raises(lode.InvalidOptionError, match="give its columns, as schema=…"):
        lode.Dataset.create("events", tmp_path, codec="parquet", shared_with_go=True)


def test_a_column_that_sorts_last_may_be_added_and_go_reads_old_and_new_files(
    go: GoProcess, tmp_path: Path
) -> None:
    dataset = lode.Dataset.create(
        "events", tmp_path, schema={"b": "int64", "a": "int64"}, shared_with_go=True
    )
    old = dataset.write([{"a": 1, "b": 2}])
    dataset.evolve(add={"c": "string"})
    new = dataset.write([{"a": 3, "b": 4, "c": "x"}])
    before = go.dataset(tmp_path, codec="parquet", fields={"a": "int64", "b": "int64"})
    after = go.dataset(tmp_path, codec="parquet", fields={"a": "int64", "b": "int64", "c": "string"})
    assert [before.read(old.id), before.read(new.id)] == [[{"a": 1, "b": 2}], [{"a": 3, "b": 4}]]
    assert [after.read(old.id), after.read(new.id)] == [[{"a": 1, "b": 2}], [{"a": 3, "b": 4, "c": "x"}]]


@pytest.mark.parametrize(
    "change",
    [
        {"add": {"aa": "int64"}},
        {"add": {"z": "list<int64>"}},
        {"rename": {"a": "z"}},
        {"drop": ["a"]},
        {"widen": {"a": "int64"}},
    ],
    ids=["between", "nested", "rename", "drop", "widen"],
)
def test_a_change_after_which_go_would_misread_files_is_refused(tmp_path: Path, change: Any) -> None:
    dataset = lode.Dataset.create(
        "events", tmp_path, schema={"b": "int64", "a": "int32"}, shared_with_go=True
    )
    dataset.write([{"a": 1, "b": 2}])
    with pytest.raises(lode.InvalidOptionError, match="Go"):
        dataset.evolve(**change)
    assert len(dataset.snapshots()) == 2
    assert dataset.definition.columns is not None
    assert [column.name for column in dataset.definition.columns] == ["a", "b"]


def test_what_go_began_may_change_until_it_is_declared_shared(go: GoProcess, tmp_path: Path) -> None:
    """Its users may have left Go. That both work on it is said by ``shared_with_go``."""
    go.dataset(tmp_path, codec="parquet", fields={"b": "int64", "c": "int64"}).write([{"b": 1, "c": 2}])
    dataset = lode.open_dataset("events", tmp_path)
    dataset.evolve(shared_with_go=True)
    with pytest.raises(lode.InvalidOptionError, match="Go, which finds columns by position"):
        dataset.evolve(add={"a": "int64"})
    go.dataset(tmp_path, "other", codec="parquet", fields={"b": "int64"}).write([{"b": 1}])
    other = lode.open_dataset("other", tmp_path)
    other.evolve(add={"a": "int64"})
    assert other.scan().read_all().to_pylist() == [{"b": 1, "a": None}]


def test_a_dataset_whose_columns_go_reads_can_be_shared_later(go: GoProcess, tmp_path: Path) -> None:
    dataset = lode.Dataset.create("events", tmp_path, schema={"a": "int64", "b": "string"})
    written = dataset.write([{"a": 1, "b": "x"}])
    dataset.evolve(shared_with_go=True)
    assert dataset.definition.shared_with_go
    assert dataset.evolve(shared_with_go=True).id == dataset.latest().id
    theirs = go.dataset(tmp_path, codec="parquet", fields={"a": "int64", "b": "string"})
    assert theirs.read(written.id) == [{"a": 1, "b": "x"}]


def test_a_dataset_whose_columns_go_misreads_cannot_be_shared_later(tmp_path: Path) -> None:
    dataset = lode.Dataset.create("events", tmp_path, schema={"b": "int64", "a": "int64"})
    with pytest.raises(lode.InvalidOptionError, match="Go would misread the columns b, a"):
        dataset.evolve(shared_with_go=True)


def test_a_shared_dataset_of_records_without_a_schema_has_no_profile(go: GoProcess, tmp_path: Path) -> None:
    dataset = lode.Dataset.create("events", tmp_path, codec="jsonl", shared_with_go=True)
    written = dataset.write([{"b": [1, {"c": None}], "a": 1.5}])
    assert go.dataset(tmp_path).read(written.id) == [{"b": [1, {"c": None}], "a": 1.5}]
