"""The write streams' life on the wire, by the official client: create, get, finalize, flush, commit."""

from __future__ import annotations

import datetime
import threading
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from google.cloud.bigquery_storage_v1 import types

from ingest.appending import Call, arrow_request, batch_of, columns
from ingest.refusals import Codes, ends_with, storage_error, trailer_errors
from ingest.tables import KINDS, Table
from lode.testing.plugin import LodeServer

if TYPE_CHECKING:
    from collections.abc import Iterator

NOBODY = "projects/p/datasets/d/tables/nobody"
INVALID, NOT_FOUND = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND
OUT_OF_RANGE = grpc.StatusCode.OUT_OF_RANGE
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
# The wire's own numbers of types, which are not those of any other enumeration.
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


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LodeServer]:
    running = LodeServer(tmp_path_factory.mktemp("streams") / "lake")
    yield running
    running.stop()


@pytest.fixture
def table(server: LodeServer) -> Table:
    return Table(server)


def codes(response: types.BatchCommitWriteStreamsResponse) -> list[str]:
    return [error.code.name for error in response.stream_errors]


def raw(message: Any) -> Any:
    """The message without proto-plus, which tells whether a field is there."""
    return type(message).pb(message)


# -- CreateWriteStream -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_is_created_with_its_type_its_time_and_the_full_schema(table: Table, kind: str) -> None:
    before = datetime.datetime.now(datetime.UTC)
    stream = table.create(kind)
    created: Any = stream.create_time  # a datetime, whatever its types say
    assert stream.name.startswith(f"{table.name}/streams/")
    assert stream.type_.value == KINDS[kind]
    assert stream.write_mode == types.WriteStream.WriteMode.INSERT
    assert before <= created <= datetime.datetime.now(datetime.UTC)
    assert [field.name for field in stream.table_schema.fields] == ["id", "name"]
    assert stream.location == "US"


def test_streams_have_names_of_their_own(table: Table) -> None:
    assert len({table.create("pending").name for _ in range(10)}) == 10


def test_a_stream_of_an_unknown_table_is_not_found_as_both_trailers_say(table: Table) -> None:
    with ends_with(NOT_FOUND) as error:
        table.client.create_write_stream(parent=NOBODY, write_stream=types.WriteStream(type_=1))
    details = trailer_errors(error[0])
    assert [detail.code for detail in details] == [Codes.TABLE_NOT_FOUND] * 2
    assert [detail.entity for detail in details] == [NOBODY] * 2


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


@pytest.mark.parametrize("wanted", [types.WriteStream(), types.WriteStream(type_=17)])
def test_a_stream_without_a_type_is_an_invalid_argument(table: Table, wanted: types.WriteStream) -> None:
    with ends_with(INVALID) as error:
        table.client.create_write_stream(parent=table.name, write_stream=wanted)
    assert "COMMITTED, PENDING or BUFFERED" in str(error[0])


def test_a_long_name_comes_back_shortened_not_as_trailers_too_long_for_the_client(table: Table) -> None:
    long = f"projects/{'ä' * 100}/datasets/{'d' * 500}/tables/{'😀' * 300}"
    wanted = types.WriteStream(type_=1)
    with ends_with(NOT_FOUND) as error:
        table.client.create_write_stream(parent=long, write_stream=wanted, retry=None)
    assert [detail.code for detail in trailer_errors(error[0])] == [Codes.TABLE_NOT_FOUND] * 2


# -- GetWriteStream (facts 15 and 16) --------------------------------------------------------------


@pytest.mark.parametrize("view", ["WRITE_STREAM_VIEW_UNSPECIFIED", "BASIC"])
def test_the_basic_view_which_is_the_default_has_no_schema(table: Table, view: str) -> None:
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
        assert stream.location == "US"
        assert stream.commit_time == stream.create_time


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


def test_a_stream_says_where_it_is(tmp_path_factory: pytest.TempPathFactory) -> None:
    server = LodeServer(tmp_path_factory.mktemp("europe") / "lake", location="europe-west3")
    try:
        table = Table(server)
        assert table.get(table.stream("pending")).location == "europe-west3"
    finally:
        server.stop()


def test_an_unknown_stream_is_not_found_as_both_trailers_say(table: Table) -> None:
    unknown = f"{table.name}/streams/nobody"
    with ends_with(NOT_FOUND) as error:
        table.get(unknown)
    details = trailer_errors(error[0])
    assert [detail.code for detail in details] == [Codes.STREAM_NOT_FOUND] * 2
    assert details[0].entity == unknown


def test_a_stream_is_not_found_under_another_table(server: LodeServer, table: Table) -> None:
    other = Table(server)
    borrowed = f"{other.name}/streams/{table.stream('pending').rpartition('/')[2]}"
    with ends_with(NOT_FOUND):
        table.get(borrowed)


def test_the_default_stream_of_an_unknown_table_is_not_found(table: Table) -> None:
    with ends_with(NOT_FOUND) as error:
        table.get(f"{NOBODY}/_default")
    assert [detail.code for detail in trailer_errors(error[0])] == [Codes.TABLE_NOT_FOUND] * 2


def test_a_malformed_stream_name_is_an_invalid_argument(table: Table) -> None:
    for act in (table.get, table.finalize, lambda name: table.flush(name, 0)):
        with ends_with(INVALID):
            act(f"{table.name}/streams/a/b")


def test_a_stream_of_a_deleted_table_is_gone_with_it_and_stays_gone(server: LodeServer, table: Table) -> None:
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


# -- FinalizeWriteStream ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_finalize_tells_how_many_rows_there_are_however_often_it_is_asked(table: Table, kind: str) -> None:
    stream = table.stream(kind, [1, 2], [3])
    assert [table.finalize(stream) for _ in range(3)] == [3, 3, 3]


@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_without_rows_is_finalized_with_none(table: Table, kind: str) -> None:
    assert table.finalize(table.stream(kind)) == 0


def test_finalize_counts_every_append_that_was_sent_before_and_is_answered(table: Table) -> None:
    stream = table.stream("committed")
    with Call(table.client) as call:
        for number in range(100):
            call.send(arrow_request(stream, batch_of([number]), schema=number == 0))
        call.receive()
        rows = table.finalize(stream)
        answers = [call.receive() for _ in range(99)]
    stored = [answer for answer in answers if "append_result" in answer]
    assert rows == 1 + len(stored) == len(table.ids())
    assert {storage_error(answer).code for answer in answers if answer not in stored} <= {
        Codes.STREAM_FINALIZED
    }


def test_the_default_stream_cannot_be_finalized(table: Table) -> None:
    for name in (table.default, f"{table.name}/_default"):
        with ends_with(INVALID) as error:
            table.finalize(name)
        assert [detail.code for detail in trailer_errors(error[0])] == [Codes.INVALID_STREAM_TYPE] * 2
    table.append(table.default, [1])
    assert table.ids() == [1]


def test_an_unknown_stream_cannot_be_finalized(table: Table) -> None:
    with ends_with(NOT_FOUND) as error:
        table.finalize(f"{table.name}/streams/nobody")
    assert [detail.code for detail in trailer_errors(error[0])] == [Codes.STREAM_NOT_FOUND] * 2


@pytest.mark.parametrize("kind", KINDS)
def test_an_append_after_finalize_is_a_failed_precondition_with_the_detail_finalized(
    table: Table, kind: str
) -> None:
    stream = table.stream(kind, [1])
    table.finalize(stream)
    with Call(table.client) as call:
        for offset in (None, 0, 1, 7):
            answer = call.ask(arrow_request(stream, batch_of([2]), offset=offset))
            assert answer.error.code == 9
            assert storage_error(answer).code == Codes.STREAM_FINALIZED
            assert storage_error(answer).entity == stream


def test_many_may_finalize_at_once_and_hear_the_same(table: Table) -> None:
    stream = table.stream("pending", range(10))
    heard: list[int] = []
    threads = [threading.Thread(target=lambda: heard.append(table.finalize(stream))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert heard == [10] * 8


# -- FlushRows (fact 5) ----------------------------------------------------------------------------


def test_a_flush_shows_the_row_at_its_offset_and_those_before(table: Table) -> None:
    stream = table.stream("buffered", range(10))
    assert table.ids() == []
    assert table.flush(stream, 4) == 4
    assert table.ids() == [0, 1, 2, 3, 4]
    assert table.flush(stream, 9) == 9
    assert table.ids() == list(range(10))


@pytest.mark.parametrize(("rows", "offset"), [(5, 5), (0, 0), (5, 10_000), (1, 2**63 - 1)])
def test_a_flush_of_a_row_that_is_not_there_is_out_of_range(table: Table, rows: int, offset: int) -> None:
    stream = table.stream("buffered", *([range(rows)] if rows else []))
    with ends_with(OUT_OF_RANGE) as error:
        table.flush(stream, offset)
    assert [detail.code for detail in trailer_errors(error[0])] == [Codes.OFFSET_OUT_OF_RANGE] * 2
    assert table.ids() == []


def test_a_flush_to_a_negative_offset_is_an_invalid_argument(table: Table) -> None:
    with ends_with(INVALID):
        table.flush(table.stream("buffered", [1]), -1)


@pytest.mark.parametrize("kind", ["committed", "pending"])
def test_a_flush_of_another_type_of_stream_is_an_invalid_argument(table: Table, kind: str) -> None:
    stream = table.stream(kind, [1])
    for offset in (0, None):
        with ends_with(INVALID) as error:
            table.flush(stream, offset)
        assert [detail.code for detail in trailer_errors(error[0])] == [Codes.INVALID_STREAM_TYPE] * 2


def test_a_flush_of_the_default_stream_is_an_invalid_argument(table: Table) -> None:
    with ends_with(INVALID) as error:
        table.flush(table.default, 0)
    assert [detail.code for detail in trailer_errors(error[0])] == [Codes.INVALID_STREAM_TYPE] * 2


def test_a_flush_without_an_offset_is_an_invalid_argument(table: Table) -> None:
    with ends_with(INVALID) as error:
        table.flush(table.stream("buffered", [1]), None)
    assert "offset" in str(error[0])


def test_a_flush_of_an_unknown_stream_is_not_found(table: Table) -> None:
    with ends_with(NOT_FOUND) as error:
        table.flush(f"{table.name}/streams/nobody", 0)
    assert [detail.code for detail in trailer_errors(error[0])] == [Codes.STREAM_NOT_FOUND] * 2


def test_flushing_the_same_offset_again_or_a_lower_one_is_fine_and_changes_nothing(table: Table) -> None:
    stream = table.stream("buffered", range(10))
    assert [table.flush(stream, offset) for offset in (6, 6, 2)] == [6, 6, 2]
    assert table.ids() == list(range(7))
    assert table.snapshots() == 1


def test_a_finalized_buffered_stream_can_still_be_flushed(table: Table) -> None:
    stream = table.stream("buffered", range(5))
    table.flush(stream, 1)
    table.finalize(stream)
    assert table.ids() == [0, 1]
    table.flush(stream, 4)
    assert table.ids() == list(range(5))


def test_a_flush_may_end_in_the_middle_of_an_append(table: Table) -> None:
    stream = table.stream("buffered", [0, 1, 2], [3, 4, 5], [6])
    shown = []
    for offset in range(7):
        table.flush(stream, offset)
        shown.append(table.ids())
    assert shown == [list(range(offset + 1)) for offset in range(7)]


def test_appends_go_on_after_a_flush(table: Table) -> None:
    stream = table.stream("buffered", [0, 1])
    table.flush(stream, 1)
    with Call(table.client) as call:
        assert call.ask(arrow_request(stream, batch_of([2]), offset=2)).append_result.offset == 2
    table.flush(stream, 2)
    assert table.ids() == [0, 1, 2]


def test_flushes_at_once_show_each_row_once(table: Table) -> None:
    stream = table.stream("buffered", range(100))
    threads = [threading.Thread(target=table.flush, args=(stream, offset)) for offset in range(9, 100, 10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert table.ids() == list(range(100))


# -- BatchCommitWriteStreams (fact 9) --------------------------------------------------------------


def test_many_streams_become_visible_in_one_snapshot(table: Table) -> None:
    streams = [table.pending([10 * number], [10 * number + 1]) for number in range(5)]
    assert table.ids() == []
    committed = table.commit(*streams)
    assert not committed.stream_errors
    assert table.ids() == sorted(10 * number + more for number in range(5) for more in (0, 1))
    assert table.snapshots() == 1


def test_the_commit_time_is_the_snapshots(server: LodeServer, table: Table) -> None:
    committed: Any = table.commit(table.pending([1])).commit_time  # a datetime, whatever its types say
    created = server.dataset(table.id).snapshots()[0].created_at
    assert abs(committed - created) < datetime.timedelta(milliseconds=1)


def bad_stream(table: Table, kind: str) -> tuple[str, str]:
    """A stream that cannot be committed, and the code that says why."""
    match kind:
        case "open":
            return table.stream("pending", [1]), "INVALID_STREAM_STATE"
        case "unknown":
            return f"{table.name}/streams/nobody", "STREAM_NOT_FOUND"
        case "committed":
            done = table.pending([2])
            table.commit(done)
            return done, "STREAM_ALREADY_COMMITTED"
        case "default":
            return table.default, "INVALID_STREAM_TYPE"
        case "other table":
            return Table(table.server).pending([3]), "STREAM_NOT_FOUND"
        case _:
            stream = table.stream(kind.split()[0], [4])
            table.finalize(stream)
            return stream, "INVALID_STREAM_TYPE"


@pytest.mark.parametrize(
    "kind", ["open", "unknown", "committed", "default", "other table", "committed type", "buffered type"]
)
def test_one_bad_stream_and_nothing_is_committed(table: Table, kind: str) -> None:
    good = table.pending([100])
    bad, code = bad_stream(table, kind)
    before = table.ids()
    response = table.commit(good, bad)
    assert not raw(response).HasField("commit_time")
    assert codes(response) == [code]
    assert response.stream_errors[0].entity == bad
    assert response.stream_errors[0].error_message
    assert table.ids() == before
    assert not table.commit(good).stream_errors
    assert table.ids() == sorted([*before, 100])


def test_each_bad_stream_has_an_entry_of_its_own(table: Table) -> None:
    bad = [bad_stream(table, kind) for kind in ("open", "unknown", "committed", "default", "buffered type")]
    response = table.commit(table.pending([7]), *(name for name, _ in bad))
    assert [(error.entity, error.code.name) for error in response.stream_errors] == bad
    assert not raw(response).HasField("commit_time")


def test_committing_twice_says_so_and_adds_nothing(table: Table) -> None:
    stream = table.pending([1])
    table.commit(stream)
    assert codes(table.commit(stream)) == ["STREAM_ALREADY_COMMITTED"]
    assert table.ids() == [1]


def test_of_two_commits_at_once_one_succeeds(table: Table) -> None:
    stream = table.pending(range(50))
    found: list[list[str]] = []
    threads = [threading.Thread(target=lambda: found.append(codes(table.commit(stream)))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [[], *[["STREAM_ALREADY_COMMITTED"]] * 5]
    assert table.ids() == list(range(50))


def test_an_empty_list_is_an_invalid_argument(table: Table) -> None:
    with ends_with(INVALID):
        table.commit()


def test_a_name_given_twice_is_an_invalid_argument_and_nothing_is_committed(table: Table) -> None:
    stream = table.pending([1])
    with ends_with(INVALID):
        table.commit(stream, stream)
    assert table.ids() == []


def test_a_malformed_name_is_an_invalid_argument_and_nothing_is_committed(table: Table) -> None:
    stream = table.pending([1])
    with ends_with(INVALID):
        table.commit(stream, "nonsense")
    assert table.ids() == []


def test_a_commit_to_an_unknown_table_is_not_found(table: Table) -> None:
    with ends_with(NOT_FOUND) as error:
        table.client.batch_commit_write_streams(
            types.BatchCommitWriteStreamsRequest(parent=NOBODY, write_streams=[f"{NOBODY}/streams/a"])
        )
    assert [detail.code for detail in trailer_errors(error[0])] == [Codes.TABLE_NOT_FOUND] * 2


def test_streams_without_rows_are_committed_like_others(table: Table) -> None:
    empty = [table.pending(), table.pending()]
    assert raw(table.commit(empty[0])).HasField("commit_time")
    assert not table.commit(table.pending([1]), empty[1]).stream_errors
    for stream in empty:
        assert codes(table.commit(stream)) == ["STREAM_ALREADY_COMMITTED"]
    assert table.ids() == [1]


def test_rows_of_a_commit_go_to_their_partitions(server: LodeServer) -> None:
    fields = [{"name": "id", "type": "INT64"}, {"name": "day", "type": "DATE"}]
    table = Table(server, fields, timePartitioning={"type": "DAY", "field": "day"})
    days = [datetime.date(2026, 1, 1 + number % 3) for number in range(30)]
    batch = columns(id=list(range(30)), day=days)
    streams = [table.stream("pending"), table.stream("pending")]
    for stream in streams:
        table.append(stream, batch)
        table.finalize(stream)
    assert not table.commit(*streams).stream_errors
    assert table.snapshots() == 1
    assert table.ids() == sorted([*range(30), *range(30)])
    assert {(row["id"], row["day"]) for row in table.rows()} == set(zip(range(30), days, strict=True))
    snapshot = server.dataset(table.id).snapshots()[0]
    folders = {part for file in snapshot.files for part in file.path.split("/") if "=" in part}
    assert folders == {"day=2026-01-01", "day=2026-01-02", "day=2026-01-03"}


def test_rows_of_a_commit_go_to_partitions_of_their_arrival(server: LodeServer) -> None:
    table = Table(server, timePartitioning={"type": "HOUR"})
    assert not table.commit(table.pending([1], [2])).stream_errors
    assert table.ids() == [1, 2]


# -- the type of a stream decides when its rows are seen ---------------------------------------------


def test_rows_of_an_uncommitted_pending_stream_are_never_seen(table: Table) -> None:
    stream = table.stream("pending", [1])
    table.finalize(stream)
    assert table.ids() == []
    assert table.snapshots() == 0


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
