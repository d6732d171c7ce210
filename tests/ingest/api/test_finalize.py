"""FinalizeWriteStream on the wire, by the official client."""

from __future__ import annotations

import threading

import pytest

from support.ingest.appending import Call, arrow_request, batch_of
from support.ingest.refusals import (
    NOT_FOUND,
    Codes,
    ends_with,
    storage_error,
    trailer_errors,
)
from support.ingest.tables import KINDS, Table


@pytest.mark.parametrize("kind", KINDS)
def test_every_finalize_of_a_stream_returns_its_number_of_rows(table: Table, kind: str) -> None:
    stream = table.stream(kind, [1, 2], [3])
    assert [table.finalize(stream) for _ in range(3)] == [3, 3, 3]


@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_without_rows_is_finalized_with_a_count_of_zero(table: Table, kind: str) -> None:
    assert table.finalize(table.stream(kind)) == 0


def test_finalize_counts_every_append_that_is_answered(table: Table) -> None:
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


def test_the_default_stream_is_not_found_by_finalize(table: Table) -> None:
    for name in (table.default, f"{table.name}/_default"):
        with ends_with(NOT_FOUND) as error:
            table.finalize(name)
        assert f"Requested entity was not found. Entity: {table.default}" in str(error[0])
        assert [detail.code for detail in trailer_errors(error[0])] == [Codes.STREAM_NOT_FOUND] * 2
    table.append(table.default, [1])
    assert table.ids() == [1]


def test_an_unknown_stream_cannot_be_finalized(table: Table) -> None:
    with ends_with(NOT_FOUND) as error:
        table.finalize(table.unknown)
    assert f"Requested entity was not found. Entity: {table.unknown}" in str(error[0])
    assert [detail.code for detail in trailer_errors(error[0])] == [Codes.STREAM_NOT_FOUND] * 2


@pytest.mark.parametrize("kind", KINDS)
def test_an_append_after_finalize_is_an_invalid_argument_with_the_detail_finalized(
    table: Table, kind: str
) -> None:
    stream = table.stream(kind, [1])
    table.finalize(stream)
    with Call(table.client) as call:
        for offset in (None, 0, 1, 7):
            answer = call.ask(arrow_request(stream, batch_of([2]), offset=offset))
            assert answer.error.code == 3
            assert "Stream has been finalized" in answer.error.message
            assert storage_error(answer).code == Codes.STREAM_FINALIZED
            assert storage_error(answer).entity == stream


def test_concurrent_finalizes_return_the_same_count(table: Table) -> None:
    stream = table.stream("pending", range(10))
    heard: list[int] = []
    threads = [threading.Thread(target=lambda: heard.append(table.finalize(stream))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert heard == [10] * 8
