"""REST v2 with the official client: insertAll and tabledata.list."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from google.api_core import exceptions
from google.api_core.retry import Retry
from google.cloud import bigquery
from google.cloud.bigquery import SchemaField, Table

from lode.ingest.api.rest.rows import InsertIds
from lode.ingest.status import Code, Refused
from support.ingest.rest_served import RestServed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from google.cloud.bigquery import Client

NEVER = Retry(predicate=lambda _: False)
VALUES: dict[str, list[Any]] = {
    "STRING": ["", "a", "ü\n\u2028😀"],
    "BYTES": [b"", b"\x00\xff", b"a" * 100],
    "INTEGER": [0, -(2**63), 2**63 - 1],
    "FLOAT": [0.0, 0.1, -1.7976931348623157e308, math.inf],
    "BOOLEAN": [True, False],
    "TIMESTAMP": [
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999999, UTC),
    ],
    "DATE": [date(1, 1, 1), date(9999, 12, 31)],
    "TIME": [time(), time(23, 59, 59, 999999), time(1, 2, 3)],
    "DATETIME": [datetime(1, 1, 1), datetime(2026, 11, 15, 12, 30, 1, 5), datetime(9999, 12, 31)],
    "NUMERIC": [Decimal(0), Decimal("-0.000000001"), Decimal("99999999999999999999999999999.999999999")],
    "BIGNUMERIC": [Decimal("1E-38"), Decimal("-12345678901234567890.5")],
    "JSON": [{"a": [1, 2.5, None, {"b": "ü"}]}, [], "text", 1, True],
    "GEOGRAPHY": ["POINT(1 2)"],
    "INTERVAL": ["1-2 3 4:5:6.5"],
}


@pytest.fixture(scope="module")
def served() -> Iterator[RestServed]:
    with RestServed() as served:
        yield served


@pytest.fixture
def client(served: RestServed, request: pytest.FixtureRequest) -> Client:
    """A client with its own project and dataset."""
    client = served.client(request.node.name.replace("_", "-").replace("[", "-").strip("]")[:60])
    client.create_dataset("d")
    return client


def make(client: Client, *schema: SchemaField, name: str = "t") -> Table:
    return client.create_table(Table(f"{client.project}.d.{name}", schema))


def listed(client: Client, table: Table, **options: Any) -> list[dict[str, Any]]:
    return [dict(row) for row in client.list_rows(table, **options)]


@pytest.mark.parametrize("kind", sorted(VALUES.keys() - {"INTERVAL"}))
def test_every_value_is_listed_as_it_was_inserted(client: Client, kind: str) -> None:
    inner = [SchemaField("one", kind), SchemaField("many", kind, "REPEATED")]
    table = make(
        client,
        SchemaField("one", kind),
        SchemaField("many", kind, "REPEATED"),
        SchemaField("record", "RECORD", fields=inner),
        SchemaField("records", "RECORD", "REPEATED", fields=inner),
    )
    values = VALUES[kind]
    rows = [
        {"one": value, "many": values, "record": {"one": value, "many": values}, "records": []}
        for value in values
    ]
    rows.append({"one": None, "many": [], "record": None, "records": [{"one": None, "many": []}]})
    rows.append(
        {"one": None, "many": [], "record": {"one": None, "many": []}, "records": [rows[0]["record"]]}
    )
    # The client sends a GEOGRAPHY unchanged, with a warning.
    send = client.insert_rows_json if kind == "GEOGRAPHY" else client.insert_rows
    assert send(table, rows) == []
    assert listed(client, table) == rows


def test_intervals_ranges_and_special_floats_are_listed(client: Client) -> None:
    table = make(
        client,
        SchemaField("interval", "INTERVAL"),
        SchemaField("stay", "RANGE", range_element_type="DATE"),
        SchemaField("shift", "RANGE", range_element_type="TIMESTAMP"),
        SchemaField("x", "FLOAT"),
    )
    sent: list[dict[str, Any]] = [
        {"interval": "1-2 3 4:5:6.5", "stay": "[2026-01-01, 2026-02-01)", "x": "NaN"},
        {"stay": {"start": None, "end": "2026-02-01"}, "x": "-Infinity"},
        {"shift": "[2026-01-01 00:00:00+00, UNBOUNDED)", "x": "Infinity"},
    ]
    assert client.insert_rows_json(table, sent) == []
    first, second, third = listed(client, table)
    assert (first["interval"].years, first["interval"].months, first["interval"].hours) == (1, 2, 4)
    assert first["stay"] == {"start": date(2026, 1, 1), "end": date(2026, 2, 1)}
    assert second["stay"] == {"start": None, "end": date(2026, 2, 1)}
    assert third["shift"] == {"start": datetime(2026, 1, 1, tzinfo=UTC), "end": None}
    assert math.isnan(first["x"])
    assert (second["x"], third["x"]) == (-math.inf, math.inf)


def test_missing_columns_get_their_defaults_and_nulls_stay(client: Client) -> None:
    table = make(
        client,
        SchemaField("id", "INTEGER"),
        SchemaField("kind", "STRING", "REQUIRED", default_value_expression="'new'"),
        SchemaField("n", "INTEGER", default_value_expression="7"),
    )
    assert client.insert_rows_json(table, [{"id": 1}, {"id": 2, "kind": "x", "n": None}]) == []
    assert listed(client, table) == [{"id": 1, "kind": "new", "n": 7}, {"id": 2, "kind": "x", "n": None}]


PAIR = (SchemaField("id", "INTEGER", "REQUIRED"), SchemaField("name", "STRING", max_length=3))


def test_one_bad_row_stops_the_others(client: Client) -> None:
    table = make(client, *PAIR)
    rows: list[dict[str, Any]] = [{"id": 1}, {"id": "x"}, {"name": "a"}, {"id": 2, "name": "long"}]
    errors = client.insert_rows_json(table, rows)
    assert [(error["index"], error["errors"][0]["reason"]) for error in errors] == [
        (0, "stopped"),
        (1, "invalid"),
        (2, "invalid"),
        (3, "invalid"),
    ]
    assert [error["errors"][0]["location"] for error in errors] == ["", "id", "id", "name"]
    assert errors[1]["errors"][0]["message"] == "Cannot convert value to integer (bad value): x"
    assert listed(client, table) == []


def test_bad_rows_can_be_skipped(client: Client) -> None:
    table = make(client, *PAIR)
    rows: list[dict[str, Any]] = [{"id": 1}, {"id": "x"}, {"id": 3, "extra": 1}, {"id": 4}]
    errors = client.insert_rows_json(table, rows, skip_invalid_rows=True)
    assert [error["index"] for error in errors] == [1, 2]
    assert [row["id"] for row in listed(client, table)] == [1, 4]


def test_unknown_values_can_be_ignored(client: Client) -> None:
    table = make(client, *PAIR, SchemaField("r", "RECORD", fields=[SchemaField("a", "INTEGER")]))
    row = {"ID": 1, "extra": {"deep": []}, "r": {"A": 2, "b": 3}}
    [error] = client.insert_rows_json(table, [row])
    assert error["errors"][0]["message"] == "no such field: extra."
    assert client.insert_rows_json(table, [row], ignore_unknown_values=True) == []
    assert listed(client, table) == [{"id": 1, "name": None, "r": {"a": 2}}]


def test_a_row_with_a_repeated_id_is_stored_once(client: Client) -> None:
    table = make(client, *PAIR)
    for _ in range(2):
        assert client.insert_rows_json(table, [{"id": 1}, {"id": 2}], row_ids=["a", "b"]) == []
    assert client.insert_rows_json(table, [{"id": 2}, {"id": 3}, {"id": 3}], row_ids=["b", "c", "c"]) == []
    assert client.insert_rows_json(table, [{"id": 1}], row_ids=[None]) == []
    assert [row["id"] for row in listed(client, table)] == [1, 2, 3, 1]


def test_an_id_is_known_only_after_its_row_is_stored(served: RestServed, client: Client) -> None:
    table = make(client, *PAIR)
    served.refuses.append(Refused(Code.RESOURCE_EXHAUSTED, "too much at once"))
    with pytest.raises(exceptions.TooManyRequests, match="too much at once"):
        client.insert_rows_json(table, [{"id": 1}], row_ids=["a"], retry=NEVER)
    assert client.insert_rows_json(table, [{"id": 1}], row_ids=["a"]) == []
    assert [row["id"] for row in listed(client, table)] == [1]


def test_a_recreated_table_has_no_known_ids_and_no_rows(client: Client) -> None:
    table = make(client, *PAIR)
    client.insert_rows_json(table, [{"id": 1}], row_ids=["a"])
    client.delete_table(table)
    again = make(client, *PAIR)
    assert listed(client, again) == []
    client.insert_rows_json(again, [{"id": 2}], row_ids=["a"])
    assert [row["id"] for row in listed(client, again)] == [2]


def test_ids_expire_by_number_and_by_time() -> None:
    now = [0.0]
    ids = InsertIds(max_ids=2, seconds=10, clock=lambda: now[0])
    ids.add("t", ["a", "b", None])
    assert ids.fresh("t", ["a", "b", "c", None, None]) == [2, 3, 4]
    assert ids.fresh("u", ["a"]) == [0]
    ids.add("t", ["c"])
    assert ids.fresh("t", ["a", "b", "c"]) == [0]
    now[0] = 11
    assert ids.fresh("t", ["b", "c"]) == [0, 1]


def test_rows_are_listed_in_pages_over_files_and_from_any_start(client: Client) -> None:
    table = make(client, *PAIR)
    for start in range(0, 100, 25):
        client.insert_rows_json(table, [{"id": number} for number in range(start, start + 25)])
    pages = [[row["id"] for row in page] for page in client.list_rows(table, page_size=30).pages]
    assert pages == [list(range(n, min(n + 30, 100))) for n in range(0, 100, 30)]
    assert [row["id"] for row in client.list_rows(table, start_index=24, max_results=3)] == [24, 25, 26]
    assert list(client.list_rows(table, start_index=1000)) == []
    rows = client.list_rows(table, max_results=1)
    list(rows)
    assert rows.total_rows == 100
    found = client.get_table(table)
    assert found.num_rows == 100
    assert found.num_bytes > 0


def test_rows_become_arrow_without_the_storage_api(client: Client) -> None:
    table = make(client, *PAIR, SchemaField("at", "TIMESTAMP"))
    client.insert_rows_json(table, [{"id": 1, "at": "2026-01-01"}, {"id": 2, "name": "b"}])
    arrow = client.list_rows(table).to_arrow(create_bqstorage_client=False)
    assert arrow.to_pylist() == [
        {"id": 1, "name": None, "at": datetime(2026, 1, 1, tzinfo=UTC)},
        {"id": 2, "name": "b", "at": None},
    ]


def test_pages_have_no_rows_newer_than_the_first_page(client: Client) -> None:
    table = make(client, *PAIR)
    client.insert_rows_json(table, [{"id": number} for number in range(4)])
    pages = client.list_rows(table, page_size=3).pages
    first = [row["id"] for row in next(pages)]
    client.insert_rows_json(table, [{"id": 9}])
    assert first + [row["id"] for page in pages for row in page] == [0, 1, 2, 3]
    assert len(listed(client, table)) == 5


def test_only_the_selected_columns_are_listed(client: Client) -> None:
    table = make(client, *PAIR, SchemaField("many", "INTEGER", "REPEATED"))
    client.insert_rows_json(table, [{"id": 1, "name": "a", "many": [1, 2]}])
    assert listed(client, table, selected_fields=[table.schema[2]]) == [{"many": [1, 2]}]
    with pytest.raises(exceptions.BadRequest, match="No such field: nope"):
        listed(client, table, selected_fields=[SchemaField("nope", "STRING")])


def test_older_rows_are_null_in_added_columns(client: Client) -> None:
    table = make(client, *PAIR)
    client.insert_rows_json(table, [{"id": 1}])
    table.schema = [*PAIR, SchemaField("later", "DATE"), SchemaField("laters", "DATE", "REPEATED")]
    table = client.update_table(table, ["schema"])
    assert client.insert_rows_json(table, [{"id": 2, "later": "2026-01-01", "laters": ["2026-01-01"]}]) == []
    assert listed(client, table) == [
        {"id": 1, "name": None, "later": None, "laters": []},
        {"id": 2, "name": None, "later": date(2026, 1, 1), "laters": [date(2026, 1, 1)]},
    ]


def test_partitioned_tables_are_listed_without_the_partition_column(client: Client) -> None:
    wanted = Table(f"{client.project}.d.t", PAIR)
    wanted.range_partitioning = bigquery.RangePartitioning(bigquery.PartitionRange(0, 10, 5), "id")
    table = client.create_table(wanted)
    client.insert_rows_json(table, [{"id": number} for number in (7, 1, 99)])
    assert {row["id"] for row in listed(client, table)} == {1, 7, 99}
    assert all(row.keys() == {"id", "name"} for row in listed(client, table))


def test_timestamps_are_seconds_unless_a_client_asks_otherwise(served: RestServed, client: Client) -> None:
    table = make(client, SchemaField("at", "TIMESTAMP"))
    client.insert_rows_json(table, [{"at": "2026-01-01 00:00:00.5 UTC"}, {"at": -0.25}])
    path = f"/bigquery/v2/projects/{client.project}/datasets/d/tables/t/data"

    def shown(query: str) -> list[str]:
        status, body = served.call("GET", path + query)
        assert status == 200
        return [row["f"][0]["v"] for row in body["rows"]]

    assert shown("") == ["1767225600.500000", "-0.250000"]
    assert shown("?formatOptions.useInt64Timestamp=true") == ["1767225600500000", "-250000"]
    assert shown("?formatOptions.timestampOutputFormat=ISO8601_STRING") == [
        "2026-01-01T00:00:00.500000Z",
        "1969-12-31T23:59:59.750000Z",
    ]


def test_a_template_suffix_creates_a_table_like_the_template(client: Client) -> None:
    by_day = bigquery.TimePartitioning(field="on")
    wanted = Table(f"{client.project}.d.t", [SchemaField("n", "INTEGER"), SchemaField("on", "DATE")])
    wanted.time_partitioning = by_day
    table = client.create_table(wanted)
    for n in (1, 2):
        row = {"n": n, "on": "2026-11-17"}
        assert client.insert_rows_json(table, [row], template_suffix="_eu", retry=NEVER) == []
    made = client.get_table(f"{client.project}.d.t_eu")
    assert (made.schema, made.time_partitioning) == (table.schema, by_day)
    assert [row["n"] for row in listed(client, made)] == [1, 2]
    assert listed(client, table) == []
    with pytest.raises(exceptions.BadRequest, match="Invalid table"):
        client.insert_rows_json(table, [{"n": 1}], template_suffix="/../x", retry=NEVER)
    with pytest.raises(exceptions.NotFound):
        client.insert_rows_json(f"{client.project}.d.none", [{"n": 1}], template_suffix="x", retry=NEVER)
