"""The Read API in Avro, decoded by the official client with fastavro."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from google.api_core import exceptions

from lode.ingest.types.columns import Column
from support.ingest.reading import Lake, Served, read, session, three_writes

if TYPE_CHECKING:
    from google.cloud.bigquery_storage_v1 import types

AT = datetime(2024, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
INNER = (Column("x", "INT64", "REQUIRED"), Column("when", "DATETIME"))
COLUMNS = (
    Column("i", "INT64", "REQUIRED"),
    Column("f", "FLOAT64"),
    Column("b", "BOOL"),
    Column("s", "STRING"),
    Column("y", "BYTES"),
    Column("d", "DATE"),
    Column("t", "TIME"),
    Column("ts", "TIMESTAMP"),
    Column("dt", "DATETIME"),
    Column("n", "NUMERIC"),
    Column("big", "BIGNUMERIC"),
    Column("j", "JSON"),
    Column("iv", "INTERVAL"),
    Column("many", "STRING", "REPEATED"),
    Column("times", "DATETIME", "REPEATED"),
    Column("st", "STRUCT", fields=INNER),
    Column("sts", "STRUCT", "REPEATED", fields=INNER),
    Column("r", "RANGE", range_element="DATE"),
)
FULL: dict[str, Any] = {
    "i": 1,
    "f": 0.5,
    "b": True,
    "s": "ü",
    "y": b"\x00\xff",
    "d": date(2024, 2, 29),
    "t": time(1, 2, 3, 4),
    "ts": AT,
    "dt": AT.replace(tzinfo=None),
    "n": Decimal("-12.345000000"),
    "big": Decimal("1." + "2" * 38),
    "j": '{"a":1}',
    "iv": "1-2 3 4:5:6",
    "many": ["a", ""],
    "times": [AT.replace(tzinfo=None, microsecond=0)],
    "st": {"x": 1, "when": AT.replace(tzinfo=None)},
    "sts": [{"x": 2, "when": None}],
    "r": {"start": date(2024, 1, 1), "end": None},
}
EMPTY: dict[str, Any] = dict.fromkeys(FULL) | {"i": 2, "many": [], "times": [], "sts": []}


def avro_rows(client: Any, made: types.ReadSession) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for stream in made.streams:
        found += [dict(row) for row in client.read_rows(stream.name).rows(made)]
    return found


def test_every_type_is_decoded_by_the_official_client(lake: Lake, served: Served) -> None:
    table = lake.table("t", COLUMNS)
    lake.write(table, [FULL, EMPTY])
    made = session(served.client, table, data_format="AVRO")
    assert not made.arrow_schema.serialized_schema
    in_avro = FULL | {
        "dt": "2024-01-02T03:04:05.000006",
        "times": ["2024-01-02T03:04:05"],
        "st": {"x": 1, "when": "2024-01-02T03:04:05.000006"},
    }
    assert avro_rows(served.client, made) == [in_avro, EMPTY]


def test_the_schema_names_the_types_as_the_service_does(lake: Lake, served: Served) -> None:
    table = lake.table("t", COLUMNS)
    described = json.loads(session(served.client, table, data_format="AVRO").avro_schema.schema)
    assert (described["type"], described["name"]) == ("record", "__root__")
    kinds = {field["name"]: field["type"] for field in described["fields"]}
    assert kinds["i"] == "long"
    assert kinds["ts"] == ["null", {"type": "long", "logicalType": "timestamp-micros"}]
    assert kinds["dt"] == ["null", {"type": "string", "sqlType": "DATETIME"}]
    assert kinds["many"] == {"type": "array", "items": "string"}
    assert kinds["st"][1]["fields"][0] == {"name": "x", "type": "long"}


def test_selected_fields_restrictions_and_offsets_work_in_avro(lake: Lake, served: Served) -> None:
    table = three_writes(lake)
    options: dict[str, Any] = {"selected_fields": ["id"], "row_restriction": "id > 1"}
    plain = session(served.client, table, **options)
    made = session(served.client, table, data_format="AVRO", **options)
    assert avro_rows(served.client, made) == read(served.client, plain)
    [stream] = made.streams
    first, *_ = served.client.read_rows(stream.name, 1)
    assert first.row_count == len(read(served.client, plain)) - 1
    assert first.avro_schema.schema == made.avro_schema.schema


def test_a_name_that_avro_does_not_allow_is_refused(lake: Lake, served: Served) -> None:
    table = lake.table("t", [Column("id", "INT64"), Column("über", "STRING")])
    with pytest.raises(exceptions.InvalidArgument, match="cannot be read in Avro"):
        session(served.client, table, data_format="AVRO")
    assert session(served.client, table, data_format="AVRO", selected_fields=["id"]).avro_schema.schema
