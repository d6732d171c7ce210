"""Write streams on the wire, by the official client: creation, lookup and types."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

import pytest
from google.cloud import bigquery
from google.cloud.bigquery_storage_v1 import types

from support.ingest.appending import Call, arrow_request, batch_of, columns
from support.ingest.refusals import (
    INVALID,
    NOT_FOUND,
    UNKNOWN_TABLE,
    Codes,
    codes,
    ends_with,
    trailer_errors,
)
from support.ingest.tables import KINDS, Table, raw

if TYPE_CHECKING:
    from lode.testing.plugin import LodeServer

Type = types.TableFieldSchema.Type
Mode = types.TableFieldSchema.Mode

NESTED = [
    {"name": "id", "type": "INT64", "mode": "REQUIRED"},
    {
        "name": "place",
        "type": "STRUCT",
        "fields": [
            {"name": "city", "type": "STRING", "mode": "REQUIRED"},
            {
                "name": "marks",
                "type": "STRUCT",
                "mode": "REPEATED",
                "fields": [{"name": "x", "type": "FLOAT"}],
            },
        ],
    },
    {"name": "tags", "type": "STRING", "mode": "REPEATED"},
]
# The numbers of types on the wire, which differ from those of other enumerations.
TYPES = {
    "STRING": 1,
    "INT64": 2,
    "FLOAT64": 3,
    "BYTES": 5,
    "BOOL": 6,
    "TIMESTAMP": 7,
    "DATE": 8,
    "TIME": 9,
    "DATETIME": 10,
    "GEOGRAPHY": 11,
    "NUMERIC": 12,
    "BIGNUMERIC": 13,
    "INTERVAL": 14,
    "JSON": 15,
}


# -- CreateWriteStream -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_stream_has_its_type_its_time_and_the_full_schema_only(table: Table, kind: str) -> None:
    before = datetime.datetime.now(datetime.UTC)
    stream = table.create(kind)
    created: Any = stream.create_time  # a datetime, unlike its declared type
    assert stream.name.startswith(f"{table.name}/streams/")
    assert stream.type_.value == KINDS[kind]
    assert stream.write_mode == types.WriteStream.WriteMode.WRITE_MODE_UNSPECIFIED
    assert before <= created <= datetime.datetime.now(datetime.UTC)
    assert [field.name for field in stream.table_schema.fields] == ["id", "name"]
    assert stream.location == ""


def test_streams_have_unique_names(table: Table) -> None:
    assert len({table.create("pending").name for _ in range(10)}) == 10


def test_a_stream_of_an_unknown_table_is_not_found_in_both_trailers(table: Table) -> None:
    with ends_with(NOT_FOUND) as error:
        table.client.create_write_stream(parent=UNKNOWN_TABLE, write_stream=types.WriteStream(type_=1))
    assert f"Requested entity was not found. Entity: {UNKNOWN_TABLE}" in str(error[0])
    details = trailer_errors(error[0])
    assert [detail.code for detail in details] == [Codes.TABLE_NOT_FOUND] * 2
    assert [detail.entity for detail in details] == [UNKNOWN_TABLE] * 2


def test_a_stream_of_an_unknown_dataset_is_not_found(table: Table) -> None:
    with ends_with(NOT_FOUND):
        table.client.create_write_stream(
            parent="projects/p/datasets/nobody/tables/t", write_stream=types.WriteStream(type_=1)
        )


@pytest.mark.parametrize(
    "parent",
    [
        "",
        "nonsense",
        "projects/p/datasets/d",
        "projects/p/datasets/d/tables/",
        "/projects/p/datasets/d/tables/t",
    ],
)
def test_a_malformed_parent_is_an_invalid_argument(table: Table, parent: str) -> None:
    with ends_with(INVALID) as error:
        table.client.create_write_stream(parent=parent, write_stream=types.WriteStream(type_=1))
    assert "projects/<project>/datasets/<dataset>/tables/<table>" in str(error[0])


def test_a_stream_of_an_unknown_write_mode_is_an_invalid_argument(table: Table) -> None:
    with ends_with(INVALID) as error:
        table.client.create_write_stream(
            parent=table.name, write_stream=types.WriteStream(type_=1, write_mode=17)
        )
    assert "write_mode 17" in str(error[0])


@pytest.mark.parametrize("wanted", [types.WriteStream(), types.WriteStream(type_=17)])
def test_a_stream_without_a_type_is_an_invalid_argument(table: Table, wanted: types.WriteStream) -> None:
    with ends_with(INVALID) as error:
        table.client.create_write_stream(parent=table.name, write_stream=wanted)
    assert "COMMITTED, PENDING or BUFFERED" in str(error[0])


def test_a_long_name_is_shortened_in_trailers(table: Table) -> None:
    long = f"projects/{'ä' * 100}/datasets/{'d' * 500}/tables/{'😀' * 300}"
    wanted = types.WriteStream(type_=1)
    with ends_with(INVALID) as error:
        table.client.create_write_stream(parent=long, write_stream=wanted, retry=None)
    assert "and may have 240" in str(error[0])


# -- GetWriteStream ----------------------------------------------------------------------------------


@pytest.mark.parametrize("view", ["WRITE_STREAM_VIEW_UNSPECIFIED", "BASIC"])
def test_the_basic_and_default_view_has_no_schema(table: Table, view: str) -> None:
    assert not raw(table.get(table.stream("committed"), view)).HasField("table_schema")


def test_the_full_view_has_the_schema_with_the_children_of_structs(server: LodeServer) -> None:
    table = Table(server, NESTED)
    for stream in (table.create("pending"), table.get(table.stream("committed"), "FULL")):
        number, place, tags = stream.table_schema.fields
        assert (number.type_, number.mode) == (Type.INT64, Mode.REQUIRED)
        assert (place.type_, place.mode) == (Type.STRUCT, Mode.NULLABLE)
        city, marks = place.fields
        assert (city.name, city.type_, city.mode) == ("city", Type.STRING, Mode.REQUIRED)
        assert (marks.name, marks.type_, marks.mode) == ("marks", Type.STRUCT, Mode.REPEATED)
        assert [(field.name, field.type_) for field in marks.fields] == [("x", Type.DOUBLE)]
        assert (tags.type_, tags.mode) == (Type.STRING, Mode.REPEATED)


def test_every_type_has_the_number_of_the_wire(server: LodeServer) -> None:
    table = Table(server, [{"name": kind.lower(), "type": kind} for kind in TYPES])
    found = raw(table.create("pending")).table_schema.fields
    assert {field.name.upper(): field.type_ for field in found} == TYPES
    assert int(Type.STRUCT) == 4


def test_the_default_stream_is_found_under_both_of_its_names(table: Table) -> None:
    for name in (table.default, f"{table.name}/_default"):
        stream = table.get(name, "FULL")
        assert stream.name == name
        assert stream.type_ == types.WriteStream.Type.COMMITTED
        assert [field.name for field in stream.table_schema.fields] == ["id", "name"]
        assert stream.location == "us"


def test_the_default_stream_is_as_old_as_its_table(server: LodeServer, table: Table) -> None:
    found = table.get(table.default)
    created: Any = found.create_time  # a datetime, unlike its declared type
    assert created == server.bigquery_client("p").get_table(table.id).created
    assert found.commit_time == created


def test_a_committed_stream_was_committed_when_it_was_created(table: Table) -> None:
    created = table.create("committed")
    found = table.get(created.name)
    assert found.create_time == created.create_time
    assert found.commit_time == created.create_time == created.commit_time


def test_a_pending_stream_has_no_commit_time_before_its_commit(table: Table) -> None:
    stream = table.stream("pending", [1])
    assert not raw(table.get(stream)).HasField("commit_time")
    table.finalize(stream)
    assert not raw(table.get(stream)).HasField("commit_time")
    committed = table.commit(stream)
    assert table.get(stream).commit_time == committed.commit_time


def test_a_buffered_stream_has_no_commit_time(table: Table) -> None:
    stream = table.stream("buffered", [1])
    table.flush(stream, 0)
    assert not raw(table.get(stream)).HasField("commit_time")


def test_a_stream_has_the_location_of_its_dataset_in_lower_case(server: LodeServer, table: Table) -> None:
    client = server.bigquery_client("p")
    dataset = bigquery.Dataset("p.europe")
    dataset.location = "EU"
    client.create_dataset(dataset)
    name = server.create_table("p.europe.t", [{"name": "id", "type": "INT64"}])
    created = table.client.create_write_stream(parent=name, write_stream=types.WriteStream(type_=2))
    for stream in (created.name, f"{name}/streams/_default"):
        found = table.get(stream)
        assert found.location == "eu"
        assert found.write_mode == types.WriteStream.WriteMode.WRITE_MODE_UNSPECIFIED


def test_an_unknown_view_is_an_invalid_argument(table: Table) -> None:
    with ends_with(INVALID) as error:
        table.client.get_write_stream(types.GetWriteStreamRequest(name=table.default, view=17))
    assert "view 17" in str(error[0])


def test_an_unknown_stream_is_not_found_in_both_trailers(table: Table) -> None:
    with ends_with(NOT_FOUND) as error:
        table.get(table.unknown)
    assert f"Requested entity was not found. Entity: {table.unknown}" in str(error[0])
    details = trailer_errors(error[0])
    assert [detail.code for detail in details] == [Codes.STREAM_NOT_FOUND] * 2
    assert details[0].entity == table.unknown


def test_a_stream_is_not_found_under_another_table(server: LodeServer, table: Table) -> None:
    other = Table(server)
    borrowed = f"{other.name}/streams/{table.stream('pending').rpartition('/')[2]}"
    with ends_with(NOT_FOUND):
        table.get(borrowed)


def test_the_default_stream_of_an_unknown_table_is_not_found(table: Table) -> None:
    with ends_with(NOT_FOUND) as error:
        table.get(f"{UNKNOWN_TABLE}/_default")
    assert [detail.code for detail in trailer_errors(error[0])] == [Codes.TABLE_NOT_FOUND] * 2


@pytest.mark.parametrize("id", ["", "a/b", "does-not-exist-12345", "s-", f"s-{'A' * 32}", f"s-{'0' * 33}"])
def test_a_malformed_stream_name_is_an_invalid_argument(table: Table, id: str) -> None:
    malformed = f"{table.name}/streams/{id}"
    for act in (table.get, table.finalize, lambda name: table.flush(name, 0)):
        with ends_with(INVALID) as error:
            act(malformed)
        assert f"Invalid stream name. Entity: {malformed}" in str(error[0])


def test_no_stream_name_at_all_is_an_invalid_argument(table: Table) -> None:
    for act in (table.get, table.finalize, lambda name: table.flush(name, 0)):
        with ends_with(INVALID):
            act("")


def test_a_stream_of_a_deleted_table_is_not_found_after_it_is_recreated(
    server: LodeServer, table: Table
) -> None:
    stream = table.pending([1])
    server.bigquery_client("p").delete_table(table.id)
    with ends_with(NOT_FOUND):
        table.get(stream)
    server.create_table(table.id, [{"name": "id", "type": "INT64"}])
    with ends_with(NOT_FOUND):
        table.get(stream)
    assert codes(table.commit(stream)) == ["STREAM_NOT_FOUND"]
    assert table.rows() == []
    table.append(table.stream("committed"), columns(id=[5]))
    assert table.ids() == [5]


# -- the type of a stream decides when rows are visible ----------------------------------------------


def test_rows_of_an_uncommitted_pending_stream_are_never_visible(table: Table) -> None:
    stream = table.stream("pending", [1])
    table.finalize(stream)
    assert table.ids() == []
    assert table.server.dataset(table.id).plan().files == []


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_append_without_an_offset_starts_at_zero(table: Table, kind: str) -> None:
    stream = table.stream(kind)
    with Call(table.client) as call:
        assert call.ask(arrow_request(stream, batch_of([1, 2]))).append_result.offset == 0
        assert call.ask(arrow_request(stream, batch_of([3]))).append_result.offset == 2


def test_two_calls_may_write_to_one_stream(table: Table) -> None:
    stream = table.stream("committed")
    with Call(table.client) as one, Call(table.client) as two:
        assert one.ask(arrow_request(stream, batch_of([0]), offset=0)).append_result.offset == 0
        assert two.ask(arrow_request(stream, batch_of([1]), offset=1)).append_result.offset == 1
        assert one.ask(arrow_request(stream, batch_of([9]), offset=1)).error.code == 6
    assert table.ids() == [0, 1]
