"""Selections of a read session: columns, added columns, and files by their statistics."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from google.api_core import exceptions

from lode.ingest.catalog.partitioning import TimePartitioning
from lode.ingest.types.columns import Column, TableSchema
from support.ingest.reading import (
    ID,
    Lake,
    Served,
    batches_of,
    grown,
    ids,
    opened,
    read,
    session,
    three_writes,
)

if TYPE_CHECKING:
    from lode.store import CountingStore

NESTED = (
    ID,
    Column(
        "a",
        "STRUCT",
        fields=(
            Column("b", "INT64"),
            Column("c", "STRING"),
            Column("d", "STRUCT", fields=(Column("e", "INT64"),)),
        ),
    ),
    Column("l", "STRUCT", "REPEATED", (Column("x", "INT64"), Column("y", "INT64"))),
)
NESTED_ROWS: list[dict[str, Any]] = [
    {"id": 1, "a": {"b": 1, "c": "x", "d": {"e": 5}}, "l": [{"x": 1, "y": 2}, {"x": 3, "y": 4}]},
    {"id": 2, "a": {"b": None, "c": None, "d": None}, "l": []},
    {"id": 3, "a": None, "l": [{"x": None, "y": None}]},
]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (["ID"], [{"id": 1}, {"id": 2}, {"id": 3}]),
        (["a.B", "id"], [{"id": 1, "a": {"b": 1}}, {"id": 2, "a": {"b": None}}, {"id": 3, "a": None}]),
        (["a.d.e"], [{"a": {"d": {"e": 5}}}, {"a": {"d": None}}, {"a": None}]),
        (["l.y"], [{"l": [{"y": 2}, {"y": 4}]}, {"l": []}, {"l": [{"y": None}]}]),
        (["a", "a.b"], [{"a": row["a"]} for row in NESTED_ROWS]),
    ],
)
def test_selected_fields_prune_structs_too(
    lake: Lake, served: Served, fields: list[str], expected: list[dict[str, Any]]
) -> None:
    table = lake.table("t", NESTED)
    lake.write(table, NESTED_ROWS)
    made = session(served.client, table, selected_fields=fields)
    assert read(served.client, made) == expected


def test_the_columns_of_a_restriction_need_not_be_selected(lake: Lake, served: Served) -> None:
    table = lake.table("t", NESTED)
    lake.write(table, NESTED_ROWS)
    made = session(served.client, table, selected_fields=["a.c"], row_restriction="id < 3 AND a.d.e = 5")
    assert read(served.client, made) == [{"a": {"c": "x"}}]


@pytest.mark.parametrize("field", ["nope", "a.nope", "id.x", "a.b.c", "", ".", "_PARTITIONID", "l.item"])
def test_an_unknown_field_is_refused_by_name(lake: Lake, served: Served, field: str) -> None:
    with pytest.raises(exceptions.InvalidArgument, match="field"):
        session(served.client, lake.table("t", NESTED), selected_fields=[field])


def test_added_columns_are_null_in_older_rows_and_added_lists_are_empty(lake: Lake, served: Served) -> None:
    table = lake.table("t", [ID, Column("a", "STRUCT", fields=(Column("b", "INT64"),))])
    lake.write(table, [{"id": 1, "a": {"b": 1}}, {"id": 2, "a": None}])
    added = (Column("c", "STRING"), Column("tags", "STRING", "REPEATED"))
    lake.catalog.update_table(
        table,
        lambda old: msgspec.structs.replace(
            old,
            schema=TableSchema(
                (
                    ID,
                    Column("a", "STRUCT", fields=(Column("b", "INT64"), Column("n", "INT64"), *added[1:])),
                    *added,
                )
            ),
        ),
    )
    lake.write(table, [{"id": 3, "a": {"b": 2, "n": 3, "tags": ["x"]}, "c": "c", "tags": ["y"]}])
    made = session(served.client, table, max_stream_count=1)
    assert read(served.client, made) == [
        {"id": 1, "a": {"b": 1, "n": None, "tags": []}, "c": None, "tags": []},
        {"id": 2, "a": None, "c": None, "tags": []},
        {"id": 3, "a": {"b": 2, "n": 3, "tags": ["x"]}, "c": "c", "tags": ["y"]},
    ]
    only_new = session(served.client, table, selected_fields=["a.n", "c"], max_stream_count=1)
    assert read(served.client, only_new) == [
        {"a": {"n": None}, "c": None},
        {"a": None, "c": None},
        {"a": {"n": 3}, "c": "c"},
    ]
    for text, expected in {
        "c IS NULL": [1, 2],
        "a.n = 3": [3],
        "a.n IS NULL": [1, 2],
        "c = 'c'": [3],
    }.items():
        assert ids(read(served.client, session(served.client, table, row_restriction=text))) == expected


def test_a_session_keeps_its_columns_when_the_table_gets_more(lake: Lake, served: Served) -> None:
    table = three_writes(lake)
    made = session(served.client, table, max_stream_count=1)
    grown(lake, table, Column("later", "STRING"))
    rows = read(served.client, made)
    assert rows[0] == {"id": 0, "name": "a"}
    assert batches_of(served.client, made.streams[0].name)[0].schema.names == ["id", "name"]


# -- partitions and statistics -----------------------------------------------------------------------


def test_files_that_statistics_exclude_are_not_opened(
    lake: Lake, served: Served, store: CountingStore
) -> None:
    table = three_writes(lake)
    store.reset()
    made = session(served.client, table, row_restriction="id >= 20")
    assert ids(read(served.client, made)) == list(range(20, 30))
    assert opened(store) == 1
    store.reset()
    assert list(session(served.client, table, row_restriction="id > 29").streams) == []
    assert opened(store) == 0


@pytest.mark.parametrize("unit", ["DAY", "HOUR"])
def test_partitions_are_read_without_the_partition_column(
    lake: Lake, served: Served, store: CountingStore, unit: Any
) -> None:
    at = Column("at", "TIMESTAMP")
    table = lake.table("t", [ID, at], partitioning=TimePartitioning(unit, "at"))
    start = datetime(2024, 1, 1, tzinfo=UTC)
    lake.write(
        table, [{"id": day, "at": start + timedelta(days=day)} for day in range(5)] + [{"id": 5, "at": None}]
    )
    made = session(served.client, table)
    rows = read(served.client, made)
    assert sorted(ids(rows)) == [0, 1, 2, 3, 4, 5]
    assert set(rows[0]) == {"id", "at"}
    store.reset()
    made = session(served.client, table, row_restriction="at >= TIMESTAMP '2024-01-04'")
    assert sorted(ids(read(served.client, made))) == [3, 4]
    assert opened(store) == 2
