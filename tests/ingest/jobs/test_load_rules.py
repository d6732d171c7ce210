"""Load jobs: dispositions, schemas, partitions, options of the formats, bad rows."""

from __future__ import annotations

import gzip
import io
import json
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from google.api_core import exceptions
from google.cloud import bigquery

import lode

if TYPE_CHECKING:
    from collections.abc import Callable

    from lode.testing.plugin import LodeServer

    Rows = Callable[[str], list[dict[str, Any]]]

Field = bigquery.SchemaField
ID = [Field("id", "INTEGER")]


class Loader:
    """Loads small files, and waits for the outcome."""

    def __init__(self, client: bigquery.Client) -> None:
        self._client = client

    def json(self, table: str, *rows: Any, job_id: str | None = None, **options: Any) -> bigquery.LoadJob:
        text = "".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows)
        return self.file(table, text.encode(), "NEWLINE_DELIMITED_JSON", job_id=job_id, **options)

    def csv(self, table: str, text: str | bytes, **options: Any) -> bigquery.LoadJob:
        return self.file(table, text if isinstance(text, bytes) else text.encode(), "CSV", **options)

    def parquet(self, table: str, content: pa.Table, **options: Any) -> bigquery.LoadJob:
        sink = io.BytesIO()
        pq.write_table(content, sink)
        return self.file(table, sink.getvalue(), "PARQUET", **options)

    def file(
        self, table: str, data: bytes, kind: str, *, job_id: str | None = None, **options: Any
    ) -> bigquery.LoadJob:
        config = bigquery.LoadJobConfig(source_format=kind, **options)
        job = self._client.load_table_from_file(
            io.BytesIO(data), table, size=len(data), job_config=config, job_id=job_id
        )
        job.result()
        return job


@pytest.fixture
def load(client: bigquery.Client) -> Loader:
    return Loader(client)


# -- dispositions --------------------------------------------------------------------------------------


def test_a_job_is_one_snapshot(load: Loader, server: LodeServer, table: str) -> None:
    load.json(table, {"id": 1}, {"id": 2}, schema=ID)
    load.json(table, {"id": 3})
    assert [snapshot.row_count for snapshot in server.dataset(table).snapshots()] == [2, 1]


def test_truncate_replaces_all_rows(load: Loader, server: LodeServer, table: str, rows: Rows) -> None:
    load.json(table, {"id": 1}, schema=ID)
    load.json(table, {"id": 2}, write_disposition="WRITE_TRUNCATE")
    assert rows(table) == [{"id": 2}]
    assert len(server.dataset(table).snapshots()) == 2  # the first rows stay in history


def test_truncate_without_rows_empties_the_table(load: Loader, table: str, rows: Rows) -> None:
    load.json(table, {"id": 1}, schema=ID)
    load.csv(table, "", schema=ID, write_disposition="WRITE_TRUNCATE")
    assert rows(table) == []


def test_truncate_replaces_the_schema(load: Loader, client: bigquery.Client, table: str, rows: Rows) -> None:
    load.json(table, {"id": 1, "old": "x"}, schema=[*ID, Field("old", "STRING")])
    new = [Field("id", "STRING"), Field("more", "FLOAT")]
    load.json(table, {"id": "a", "more": 1.5}, schema=new, write_disposition="WRITE_TRUNCATE")
    assert client.get_table(table).schema == new
    assert rows(table) == [{"id": "a", "more": 1.5}]
    load.json(table, {"id": "b"})
    assert rows(table)[1] == {"id": "b", "more": None}
    assert [dict(row) for row in client.list_rows(table)] == rows(table)


def test_write_empty_refuses_a_table_with_rows(load: Loader, table: str, rows: Rows) -> None:
    load.json(table, {"id": 1}, schema=ID, write_disposition="WRITE_EMPTY")
    with pytest.raises(exceptions.Conflict, match=f"Already Exists: Table p:{table[2:]}"):
        load.json(table, {"id": 2}, write_disposition="WRITE_EMPTY")
    assert rows(table) == [{"id": 1}]


def test_create_never_needs_the_table(load: Loader, client: bigquery.Client, table: str) -> None:
    with pytest.raises(exceptions.NotFound, match="Not found: Table"):
        load.json(table, {"id": 1}, schema=ID, create_disposition="CREATE_NEVER")
    with pytest.raises(exceptions.NotFound, match="Not found: Dataset p:nowhere"):
        load.json("p.nowhere.t", {"id": 1}, schema=ID)
    with pytest.raises(exceptions.NotFound):
        client.get_table(table)


def test_a_failed_job_creates_no_table_and_no_generation(
    load: Loader, client: bigquery.Client, server: LodeServer, table: str
) -> None:
    with pytest.raises(exceptions.BadRequest):
        load.json(table, {"id": 1}, {"id": "x"}, schema=ID)
    with pytest.raises(exceptions.NotFound):
        client.get_table(table)
    load.json(table, {"id": 1}, schema=ID)
    assert server.dataset(table).id == table


def test_a_job_id_is_used_once(load: Loader, table: str, rows: Rows) -> None:
    load.json(table, {"id": 1}, schema=ID, job_id=f"once-{table[4:]}")
    with pytest.raises(exceptions.Conflict, match=r"Already Exists: Job p:US\.once"):
        load.json(table, {"id": 1}, job_id=f"once-{table[4:]}")
    assert rows(table) == [{"id": 1}]


def test_streaming_writers_continue_beside_loads(
    load: Loader, client: bigquery.Client, table: str, rows: Rows
) -> None:
    load.json(table, {"id": 1}, schema=ID)
    assert client.insert_rows_json(table, [{"id": 2}]) == []
    load.json(table, {"id": 3}, write_disposition="WRITE_TRUNCATE")
    assert client.insert_rows_json(table, [{"id": 4}]) == []
    load.json(table, {"id": 5, "new": "x"}, schema=[*ID, Field("new", "STRING")], **ADD)
    assert client.insert_rows_json(table, [{"id": 6}]) == []
    assert sorted(row["id"] for row in rows(table)) == [3, 4, 5, 6]


def test_loads_and_streams_commit_to_one_table_at_once(
    client: bigquery.Client, table: str, rows: Rows
) -> None:
    client.create_table(bigquery.Table(table, ID))
    jobs = []
    for number in range(6):
        jobs.append(client.load_table_from_json([{"id": number}] * 50, table))
        assert client.insert_rows_json(table, [{"id": 100 + number}]) == []
    for job in jobs:
        job.result()
    expected = [number for number in range(6) for _ in range(50)] + [100 + number for number in range(6)]
    assert sorted(row["id"] for row in rows(table)) == sorted(expected)


# -- schemas -------------------------------------------------------------------------------------------

ADD: dict[str, Any] = {"schema_update_options": ["ALLOW_FIELD_ADDITION"]}
RELAX: dict[str, Any] = {"schema_update_options": ["ALLOW_FIELD_RELAXATION"]}


def test_new_columns_need_permission(load: Loader, client: bigquery.Client, table: str, rows: Rows) -> None:
    load.json(table, {"id": 1}, schema=ID)
    wider = [*ID, Field("name", "STRING", "REQUIRED")]
    with pytest.raises(exceptions.BadRequest, match=r"does not match Table.*Cannot add fields \(field: name"):
        load.json(table, {"id": 2, "name": "x"}, schema=wider)
    load.json(table, {"id": 2, "name": "x"}, schema=wider, **ADD)
    assert client.get_table(table).schema == [*ID, Field("name", "STRING")]
    assert rows(table) == [{"id": 1, "name": None}, {"id": 2, "name": "x"}]


def test_new_columns_of_a_parquet_file_are_added(load: Loader, table: str, rows: Rows) -> None:
    load.json(table, {"id": 1}, schema=ID)
    content = pa.table({"id": [2], "place": [{"city": "Ulm"}]})
    with pytest.raises(exceptions.BadRequest, match="Cannot add fields"):
        load.parquet(table, content)
    load.parquet(table, content, ignore_unknown_values=True)
    load.parquet(table, content, **ADD)
    assert [row["place"] for row in rows(table)] == [None, None, {"city": "Ulm"}]


def test_required_columns_are_relaxed_with_permission(
    load: Loader, client: bigquery.Client, table: str
) -> None:
    load.json(table, {"id": 1}, schema=[Field("id", "INTEGER", "REQUIRED")])
    with pytest.raises(exceptions.BadRequest, match="changed mode from REQUIRED to NULLABLE"):
        load.json(table, {}, schema=ID)
    load.json(table, {}, schema=ID, **RELAX)
    assert client.get_table(table).schema == ID


def test_a_type_cannot_change_by_an_append(load: Loader, table: str) -> None:
    load.json(table, {"id": 1}, schema=ID)
    with pytest.raises(exceptions.BadRequest, match="Field id has changed type from INT64 to STRING"):
        load.json(table, {"id": "x"}, schema=[Field("id", "STRING")])


def test_a_new_table_needs_a_schema(load: Loader, table: str) -> None:
    with pytest.raises(exceptions.BadRequest, match="No schema specified on job or table"):
        load.json(table, {"id": 1})


def test_columns_that_are_left_out_get_their_default(load: Loader, table: str, rows: Rows) -> None:
    schema = [*ID, Field("name", "STRING", default_value_expression="'none'")]
    load.json(table, {"id": 1}, {"id": 2, "name": None}, schema=schema)
    load.csv(table, "3\n", schema=ID)
    load.parquet(table, pa.table({"id": [4]}))
    assert [row["name"] for row in rows(table)] == ["none", None, "none", "none"]


# -- partitions ----------------------------------------------------------------------------------------


def test_a_partition_of_a_column_is_replaced_alone(load: Loader, table: str, rows: Rows) -> None:
    schema = [*ID, Field("on", "DATE")]
    by_day = bigquery.TimePartitioning(field="on")
    sent = [{"id": 1, "on": "2026-01-01"}, {"id": 2, "on": "2026-01-02"}]
    load.json(table, *sent, schema=schema, time_partitioning=by_day, clustering_fields=["id"])
    load.json(f"{table}$20260102", {"id": 3, "on": "2026-01-02"}, write_disposition="WRITE_TRUNCATE")
    load.json(f"{table}$20260101", {"id": 4, "on": "2026-01-01"})
    assert sorted(row["id"] for row in rows(table)) == [1, 3, 4]
    with pytest.raises(exceptions.BadRequest, match=r"belong to other partitions than \$20260102"):
        load.json(f"{table}$20260102", {"id": 5, "on": "2026-01-03"}, write_disposition="WRITE_TRUNCATE")
    with pytest.raises(exceptions.Conflict, match=r"Already Exists.*\$20260101"):
        load.json(f"{table}$20260101", {"id": 4, "on": "2026-01-01"}, write_disposition="WRITE_EMPTY")
    load.json(f"{table}$20260109", {"id": 9, "on": "2026-01-09"}, write_disposition="WRITE_EMPTY")


def test_a_partition_of_arrival_takes_the_rows(load: Loader, server: LodeServer, table: str) -> None:
    hourly = bigquery.TimePartitioning(type_="HOUR")
    load.json(f"{table}$2026010203", {"id": 1}, {"id": 2}, schema=ID, time_partitioning=hourly)
    load.json(f"{table}$2026010204", {"id": 3})
    load.json(f"{table}$2026010203", {"id": 4}, write_disposition="WRITE_TRUNCATE")
    found = server.dataset(table).scan().read_all().to_pylist()
    assert sorted((row["_PARTITIONID"], row["id"]) for row in found) == [("2026010203", 4), ("2026010204", 3)]


def test_a_range_partition_is_replaced_alone(load: Loader, table: str, rows: Rows) -> None:
    ranges = bigquery.RangePartitioning(
        field="id", range_=bigquery.PartitionRange(start=0, end=100, interval=10)
    )
    load.json(table, {"id": 1}, {"id": 11}, schema=ID, range_partitioning=ranges)
    load.json(f"{table}$10", {"id": 12}, write_disposition="WRITE_TRUNCATE")
    assert sorted(row["id"] for row in rows(table)) == [1, 12]


@pytest.mark.parametrize(
    "decorator", ["2026", "20261301", "../x", "2026010", "x", "20260101$1", "20260101@1"]
)
def test_an_invalid_partition_is_refused(load: Loader, table: str, decorator: str) -> None:
    daily = bigquery.TimePartitioning(type_="DAY")
    with pytest.raises(exceptions.BadRequest):
        load.json(f"{table}${decorator}", {"id": 1}, schema=ID, time_partitioning=daily)


def test_a_partition_needs_a_partitioned_table(load: Loader, table: str) -> None:
    load.json(table, {"id": 1}, schema=ID)
    with pytest.raises(exceptions.BadRequest, match="is not partitioned"):
        load.json(f"{table}$20260101", {"id": 1})
    with pytest.raises(exceptions.BadRequest, match="Incompatible table partitioning"):
        load.json(table, {"id": 1}, time_partitioning=bigquery.TimePartitioning(type_="DAY"))


# -- bad rows ------------------------------------------------------------------------------------------


def test_bad_rows_are_reported_in_the_shape_of_the_service(
    load: Loader, client: bigquery.Client, table: str
) -> None:
    with pytest.raises(exceptions.BadRequest) as caught:
        load.json(table, {"id": 1}, {"id": "x"}, schema=ID, job_id=f"bad-{table[4:]}")
    assert "JSON table encountered too many errors, giving up. Rows: 2; errors: 1." in str(caught.value)
    job = client.get_job(f"bad-{table[4:]}")
    assert job.state == "DONE"
    assert job.error_result == job.errors[0]
    assert job.error_result["reason"] == "invalid"
    assert "starting at position 10: Column 'id': Cannot convert value to integer" in job.errors[1]["message"]


def test_bad_rows_are_skipped_up_to_a_limit(load: Loader, table: str, rows: Rows) -> None:
    bad: list[Any] = ["{", {"id": "x"}, {"other": 1}, "7"]
    job = load.json(table, {"id": 1}, *bad, {"id": 2}, schema=ID, max_bad_records=4)
    assert rows(table) == [{"id": 1}, {"id": 2}]
    assert job.error_result is None
    assert len(job.errors or []) == 4
    assert job._properties["statistics"]["load"]["badRecords"] == "4"
    with pytest.raises(exceptions.BadRequest):
        load.json(table, *bad, max_bad_records=3)
    job = load.csv(table, "x\n3\n4,5\n", schema=ID, max_bad_records=2)
    assert [row["id"] for row in rows(table)] == [1, 2, 3]
    content = pa.table({"id": pa.array([2**63, 4], pa.uint64())})
    load.parquet(table, content, max_bad_records=1)
    assert rows(table)[-1] == {"id": 4}


def test_unknown_values_are_ignored_if_asked(load: Loader, table: str, rows: Rows) -> None:
    load.json(table, {"id": 1, "x": {"y": 1}}, schema=ID, ignore_unknown_values=True)
    load.csv(table, "2,x\n", schema=ID, ignore_unknown_values=True)
    assert rows(table) == [{"id": 1}, {"id": 2}]


# -- formats -------------------------------------------------------------------------------------------

TEXTS = [Field("a", "STRING"), Field("b", "STRING")]


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ("a|b\n1|2\n", {"field_delimiter": "|", "skip_leading_rows": 1}, [("1", "2")]),
        ("a\tb\n", {"field_delimiter": "\t"}, [("a", "b")]),
        ("a\tb\n", {"field_delimiter": "tab"}, [("a", "b")]),
        ("'x,y',2\n", {"quote_character": "'"}, [("x,y", "2")]),
        ('"x,2\n', {"quote_character": ""}, [('"x', "2")]),
        ('"x\ny",2\n', {"allow_quoted_newlines": True}, [("x\ny", "2")]),
        ('a,""\n,NULL\n', {}, [("a", ""), (None, "NULL")]),
        (r"\N,x", {"null_marker": r"\N"}, [(None, "x")]),
        (",x", {"null_marker": r"\N"}, [("", "x")]),
        ("a\nb,c\n", {"allow_jagged_rows": True}, [("b", "c"), ("a", None)]),
        ('a""b,"c""d"\n', {}, [('a""b', 'c"d')]),
        ("a,b\r\n\r\nc,d", {}, [("a", "b"), ("c", "d")]),
    ],
)
def test_csv_is_read_as_its_options_say(
    load: Loader, table: str, rows: Rows, text: str, options: dict[str, Any], expected: list[Any]
) -> None:
    load.csv(table, text, schema=TEXTS, **options)
    assert [(row["a"], row["b"]) for row in rows(table)] == expected


@pytest.mark.parametrize("encoding", ["UTF-8", "ISO-8859-1", "UTF-16LE"])
def test_csv_is_decoded(load: Loader, table: str, rows: Rows, encoding: str) -> None:
    load.csv(table, "ä,ö\n".encode(encoding), schema=TEXTS, encoding=encoding)
    assert rows(table) == [{"a": "ä", "b": "ö"}]


@pytest.mark.parametrize("text", ['"x\ny",2\n', "1\n", "1,2,3\n", b"\xff,2\n"])
def test_malformed_csv_is_refused(load: Loader, table: str, text: str | bytes) -> None:
    with pytest.raises(exceptions.BadRequest, match="Error while reading data"):
        load.csv(table, text, schema=TEXTS)


def test_a_null_byte_in_csv_is_refused_unless_it_is_to_be_kept(load: Loader, table: str, rows: Rows) -> None:
    with pytest.raises(exceptions.BadRequest, match=r"row 2: Bad character \(ASCII 0\) encountered"):
        load.csv(table, b"1,2\na\0b,2\n", schema=TEXTS)
    load.csv(table, b"a\0b,2\n", schema=TEXTS, preserve_ascii_control_characters=True)
    assert rows(table) == [{"a": "a\0b", "b": "2"}]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"a":' * 50_000 + b"1" + b"}" * 50_000, "it is nested too deep"),
        (b'{"a": ' + b"9" * 5_000 + b"}", "a number has too many digits"),
        (b'{"a": ', "JSON parsing error in row starting at position 0"),
    ],
)
@pytest.mark.parametrize("options", [{"autodetect": True}, {"schema": [Field("a", "INTEGER")]}])
def test_a_line_of_json_that_cannot_be_read_says_why(
    load: Loader, client: bigquery.Client, table: str, line: bytes, message: str, options: dict[str, Any]
) -> None:
    with pytest.raises(exceptions.BadRequest, match=message):
        load.file(table, line, "NEWLINE_DELIMITED_JSON", **options)
    with pytest.raises(exceptions.NotFound):
        client.get_table(table)


@pytest.mark.parametrize("places", [slice(0, 1), slice(0, None)])
def test_a_parquet_file_whose_footer_lies_about_its_rows_is_refused(
    load: Loader, client: bigquery.Client, table: str, places: slice
) -> None:
    sink = io.BytesIO()
    pq.write_table(pa.table({"a": pa.array([1, 2, 3], pa.int64())}), sink)
    data = sink.getvalue()
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    # A number of 64 bits in the footer: 3, and a billion.
    parts = data[start:-8].split(b"\x16\x06")
    lies = [b"\x16\x06"] * (len(parts) - 1)
    lies[places] = [b"\x16\x80\xa8\xd6\xb9\x07"] * len(lies[places])
    footer = b"".join(part + lie for part, lie in zip(parts, [*lies, b""], strict=True))
    with pytest.raises(exceptions.BadRequest, match=r"its footer says|cannot be read as Parquet"):
        load.file(table, data[:start] + footer + len(footer).to_bytes(4, "little") + b"PAR1", "PARQUET")
    with pytest.raises(exceptions.NotFound):
        client.get_table(table)


def test_csv_values_are_read_by_type(load: Loader, table: str, rows: Rows) -> None:
    types = ["INTEGER", "FLOAT", "BOOLEAN", "DATE", "DATETIME", "NUMERIC", "BYTES", "JSON"]
    schema = [Field(f"c{index}", kind) for index, kind in enumerate(types)]
    load.csv(table, '7,1.5,yes,2026-01-02,2026-01-02 03:04:05,1.25,AP8=,"{""a"":1}"\n', schema=schema)
    assert list(rows(table)[0].values()) == [
        7,
        1.5,
        True,
        date(2026, 1, 2),
        datetime(2026, 1, 2, 3, 4, 5),
        Decimal("1.25"),
        b"\x00\xff",
        '{"a":1}',
    ]
    with pytest.raises(exceptions.BadRequest, match=r"Row 1: Column 'c0'.*bad value\): 0x1F"):
        load.csv(table, "0x1F,,,,,,,\n")


@pytest.mark.parametrize(
    ("text", "options", "columns"),
    [
        ("id,name\n1,a\n", {}, {"id": "INTEGER", "name": "STRING"}),
        ("1,a\n2,b\n", {}, {"int64_field_0": "INTEGER", "string_field_1": "STRING"}),
        ("x,y\na,b\n", {}, {"string_field_0": "STRING", "string_field_1": "STRING"}),
        ("2 km;b c\n1;true\n", {}, {"_2_km": "INTEGER", "b_c": "BOOLEAN"}),
        ("note\nid\n1\n1.5\n", {"skip_leading_rows": 2}, {"id": "FLOAT"}),
        ("a,b\n2026-01-02,2026-01-02 03:04\n", {}, {"a": "DATE", "b": "TIMESTAMP"}),
        ("a,b\n03:04:05,\n", {}, {"a": "TIME", "b": "STRING"}),
    ],
)
def test_columns_of_csv_are_detected(
    load: Loader,
    client: bigquery.Client,
    table: str,
    text: str,
    options: dict[str, Any],
    columns: dict[str, str],
) -> None:
    load.csv(table, text, autodetect=True, **options)
    assert {field.name: field.field_type for field in client.get_table(table).schema} == columns


def test_detected_csv_is_appended_by_its_header_or_its_order(load: Loader, table: str, rows: Rows) -> None:
    load.csv(table, "id,name\n1,a\n", autodetect=True)
    load.csv(table, "name,id\nb,2\n", autodetect=True)
    load.csv(table, "3,c\n", autodetect=True)
    with pytest.raises(exceptions.BadRequest, match="Cannot add fields"):
        load.csv(table, "id,more\n4,1.5\n", autodetect=True)
    load.csv(table, "id,more\n5,1.5\n", autodetect=True, ignore_unknown_values=True)
    assert [tuple(row.values()) for row in rows(table)] == [(1, "a"), (2, "b"), (3, "c"), (5, None)]


def test_gzip_files_are_decompressed(load: Loader, table: str, rows: Rows) -> None:
    # Two members, as concatenated files have.
    data = gzip.compress(b'{"id": 1}\n') + gzip.compress(b'{"id": 2}\n')
    load.file(table, data, "NEWLINE_DELIMITED_JSON", schema=ID)
    load.csv(table, gzip.compress(b"3\n"), schema=ID)
    assert [row["id"] for row in rows(table)] == [1, 2, 3]


def test_numbers_keep_their_digits(load: Loader, table: str, rows: Rows) -> None:
    load.json(table, '{"n": 1.000000000000000000000001}', schema=[Field("n", "BIGNUMERIC")])
    assert rows(table)[0]["n"] == Decimal("1.000000000000000000000001")


def test_parquet_values_are_made_to_fit(load: Loader, table: str, rows: Rows) -> None:
    schema = [
        Field("at", "TIMESTAMP"),
        Field("kind", "STRING"),
        Field("m", "RECORD", "REPEATED", fields=KEYED),
    ]
    content = pa.table(
        {
            "at": pa.array([datetime(2026, 1, 2)], pa.timestamp("ns")),
            "kind": pa.array(["x"]).dictionary_encode(),
            "m": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int32())),
        }
    )
    load.parquet(table, content, schema=schema)
    (row,) = rows(table)
    assert row["at"].isoformat() == "2026-01-02T00:00:00+00:00"
    assert (row["kind"], row["m"]) == ("x", [{"key": "a", "value": 1}])


KEYED = [Field("key", "STRING", "REQUIRED"), Field("value", "INTEGER")]


def test_avro_of_all_types_is_loaded(load: Loader, client: bigquery.Client, table: str, rows: Rows) -> None:
    def logical(name: str, kind: str, **more: Any) -> dict[str, Any]:
        return {"type": kind, "logicalType": name, **more}

    inner = {"type": "record", "name": "inner", "fields": [{"name": "n", "type": "int"}]}
    types = {
        "flag": "boolean",
        "real": "float",
        "raw": "bytes",
        "kind": {"type": "enum", "name": "e", "symbols": ["X"]},
        "fix": {"type": "fixed", "name": "f", "size": 2},
        "day": logical("date", "int"),
        "clock": logical("time-micros", "long"),
        "civil": logical("local-timestamp-micros", "long"),
        "price": logical("decimal", "bytes", precision=10, scale=2),
        "list": {"type": "array", "items": inner},
        "map": {"type": "map", "values": ["null", "inner"]},
        "one": ["null", "inner"],
    }
    schema = {
        "type": "record",
        "name": "row",
        "fields": [{"name": name, "type": kind} for name, kind in types.items()],
    }
    row = {
        "flag": True,
        "real": 0.5,
        "raw": b"\x01",
        "kind": "X",
        "fix": b"ab",
        "day": date(2026, 1, 2),
        "clock": datetime(2026, 1, 2, 3, 4, 5).time(),
        "civil": datetime(2026, 1, 2, 3, 4, 5),
        "price": Decimal("1.25"),
        "list": [{"n": 1}],
        "map": {"a": {"n": 2}, "b": None},
        "one": None,
    }
    sink = io.BytesIO()
    fastavro.writer(sink, schema, [row])
    load.file(table, sink.getvalue(), "AVRO", use_avro_logical_types=True)
    (found,) = rows(table)
    entries = [{"key": "a", "value": {"n": 2}}, {"key": "b", "value": None}]
    assert found == row | {"map": entries}
    modes = {field.name: field.mode for field in client.get_table(table).schema}
    assert (modes["flag"], modes["one"], modes["list"]) == ("REQUIRED", "NULLABLE", "REPEATED")


@pytest.mark.parametrize("kind", ["PARQUET", "ORC", "AVRO", "NEWLINE_DELIMITED_JSON"])
@pytest.mark.parametrize("data", [b"", b"PAR1 not really PAR1", b"Obj\x01", bytes(range(256)) * 10])
def test_a_file_of_another_format_is_refused(load: Loader, table: str, kind: str, data: bytes) -> None:
    if kind == "NEWLINE_DELIMITED_JSON":
        data = data or b"{"  # an empty file has no rows, and no bad ones
    with pytest.raises(exceptions.BadRequest, match="Error while reading data"):
        load.file(table, data, kind, schema=ID if "JSON" in kind else None)


@pytest.mark.parametrize(
    "load_settings",
    [
        {},
        {"destinationTable": {"datasetId": "d"}},
        {"destinationTable": {"datasetId": "d", "tableId": "t"}},
        {"sourceFormat": "EXCEL"},
        {"writeDisposition": "WRITE"},
        {"createDisposition": 7},
        {"schema": {"fields": [{"name": "a", "type": "NOTHING"}]}},
        {"hivePartitioningOptions": {"mode": "AUTO"}},
    ],
)
def test_an_invalid_configuration_makes_no_job(
    client: bigquery.Client, load_settings: dict[str, Any]
) -> None:
    full = {"destinationTable": {"datasetId": "d", "tableId": "t"}, "sourceUris": ["gs://bucket/f"]}
    body = (
        load_settings
        if len(load_settings) != 1 or "destinationTable" in load_settings
        else full | load_settings
    )
    with pytest.raises((exceptions.BadRequest, exceptions.MethodNotImplemented)):
        client._connection.api_request(  # type: ignore[no-untyped-call]
            method="POST", path="/projects/p/jobs", data={"configuration": {"load": body}}
        )


def test_the_library_reads_the_key_of_a_load(load: Loader, server: LodeServer, table: str) -> None:
    job = load.json(table, {"id": 1}, schema=ID)
    snapshot = lode.Dataset(table, server.root).snapshots()[-1]
    assert snapshot.metadata == {"job": {"id": f"p:US.{job.job_id}", "type": "load"}}
