"""BatchCommitWriteStreams with the official client: all streams are committed, or none."""

from __future__ import annotations

import datetime
import threading
from typing import TYPE_CHECKING, Any

import pytest
from google.cloud.bigquery_storage_v1 import types

from support.ingest.appending import columns
from support.ingest.refusals import (
    INVALID,
    NOT_FOUND,
    UNKNOWN_ID,
    UNKNOWN_TABLE,
    Codes,
    codes,
    ends_with,
    trailer_errors,
)
from support.ingest.tables import Table, raw

if TYPE_CHECKING:
    from lode.testing.plugin import LodeServer


def test_many_streams_become_visible_in_one_snapshot(table: Table) -> None:
    streams = [table.pending([10 * number], [10 * number + 1]) for number in range(5)]
    assert table.ids() == []
    before = table.snapshots()
    committed = table.commit(*streams)
    assert not committed.stream_errors
    assert table.ids() == sorted(10 * number + more for number in range(5) for more in (0, 1))
    assert table.snapshots() == before + 1


def test_the_commit_time_is_the_snapshots(server: LodeServer, table: Table) -> None:
    committed: Any = table.commit(table.pending([1])).commit_time  # a datetime, unlike its declared type
    created = server.dataset(table.id).latest().created_at
    assert abs(committed - created) < datetime.timedelta(milliseconds=1)


def bad_stream(table: Table, kind: str) -> tuple[str, str]:
    """A stream that cannot be committed, and the code of the reason."""
    match kind:
        case "open":
            return table.stream("pending", [1]), "INVALID_STREAM_STATE"
        case "unknown":
            return table.unknown, "STREAM_NOT_FOUND"
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
def test_nothing_is_committed_if_one_stream_is_invalid(table: Table, kind: str) -> None:
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


def test_each_invalid_stream_has_its_own_entry(table: Table) -> None:
    bad = [bad_stream(table, kind) for kind in ("open", "unknown", "committed", "default", "buffered type")]
    response = table.commit(table.pending([7]), *(name for name, _ in bad))
    assert [(error.entity, error.code.name) for error in response.stream_errors] == bad
    assert not raw(response).HasField("commit_time")


def test_a_second_commit_is_refused_and_adds_nothing(table: Table) -> None:
    stream = table.pending([1])
    table.commit(stream)
    assert codes(table.commit(stream)) == ["STREAM_ALREADY_COMMITTED"]
    assert table.ids() == [1]


def test_one_of_two_concurrent_commits_succeeds(table: Table) -> None:
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


@pytest.mark.parametrize("id", ["", "nonsense", "does-not-exist-12345"])
def test_a_malformed_name_is_an_invalid_argument_and_nothing_is_committed(table: Table, id: str) -> None:
    stream = table.pending([1])
    malformed = f"{table.name}/streams/{id}"
    with ends_with(INVALID) as error:
        table.commit(stream, malformed)
    assert f"Invalid stream name. Entity: {malformed}" in str(error[0])
    assert table.ids() == []


def test_a_commit_to_an_unknown_table_is_not_found(table: Table) -> None:
    with ends_with(NOT_FOUND) as error:
        table.client.batch_commit_write_streams(
            types.BatchCommitWriteStreamsRequest(
                parent=UNKNOWN_TABLE, write_streams=[f"{UNKNOWN_TABLE}/streams/{UNKNOWN_ID}"]
            )
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
    before = table.snapshots()
    assert not table.commit(*streams).stream_errors
    assert table.snapshots() == before + 1
    assert table.ids() == sorted([*range(30), *range(30)])
    assert {(row["id"], row["day"]) for row in table.rows()} == set(zip(range(30), days, strict=True))
    snapshot = server.dataset(table.id).latest()
    folders = {part for file in snapshot.files for part in file.path.split("/") if "=" in part}
    assert folders == {"day=2026-01-01", "day=2026-01-02", "day=2026-01-03"}


def test_rows_of_a_commit_go_to_the_partition_of_their_arrival(server: LodeServer) -> None:
    table = Table(server, timePartitioning={"type": "HOUR"})
    assert not table.commit(table.pending([1], [2])).stream_errors
    assert table.ids() == [1, 2]
