"""FlushRows on the wire, by the official client."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from support.ingest.appending import Call, arrow_request, batch_of
from support.ingest.refusals import (
    INVALID,
    NOT_FOUND,
    OUT_OF_RANGE,
    Codes,
    ends_with,
    trailer_errors,
)

if TYPE_CHECKING:
    from support.ingest.tables import Table


def test_a_flush_shows_the_row_at_its_offset_and_those_before(table: Table) -> None:
    stream = table.stream("buffered", range(10))
    assert table.ids() == []
    assert table.flush(stream, 4) == 4
    assert table.ids() == [0, 1, 2, 3, 4]
    assert table.flush(stream, 9) == 9
    assert table.ids() == list(range(10))


@pytest.mark.parametrize(("rows", "offset"), [(5, 5), (0, 0), (5, 10_000), (1, 2**63 - 1)])
def test_a_flush_beyond_the_last_row_is_out_of_range(table: Table, rows: int, offset: int) -> None:
    stream = table.stream("buffered", *([range(rows)] if rows else []))
    with ends_with(OUT_OF_RANGE) as error:
        table.flush(stream, offset)
    assert f"Offset {offset} is beyond the end of the stream Entity: {stream}" in str(error[0])
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
        table.flush(table.unknown, 0)
    assert f"Requested entity was not found. Entity: {table.unknown}" in str(error[0])
    assert [detail.code for detail in trailer_errors(error[0])] == [Codes.STREAM_NOT_FOUND] * 2


def test_a_repeated_or_lower_flush_succeeds_without_effect(table: Table) -> None:
    stream = table.stream("buffered", range(10))
    before = table.snapshots()
    assert [table.flush(stream, offset) for offset in (6, 6, 2)] == [6, 6, 2]
    assert table.ids() == list(range(7))
    assert table.snapshots() == before + 1


def test_a_flush_after_finalize_is_an_invalid_argument_with_the_detail_finalized(table: Table) -> None:
    stream = table.stream("buffered", range(5))
    table.flush(stream, 1)
    table.finalize(stream)
    for offset in (0, 1, 4, 99):
        with ends_with(INVALID) as error:
            table.flush(stream, offset)
        assert "Stream has been finalized" in str(error[0])
        assert [detail.code for detail in trailer_errors(error[0])] == [Codes.STREAM_FINALIZED] * 2
    assert table.ids() == [0, 1]


def test_a_flush_may_end_in_the_middle_of_an_append(table: Table) -> None:
    stream = table.stream("buffered", [0, 1, 2], [3, 4, 5], [6])
    shown = []
    for offset in range(7):
        table.flush(stream, offset)
        shown.append(table.ids())
    assert shown == [list(range(offset + 1)) for offset in range(7)]


def test_appends_continue_after_a_flush(table: Table) -> None:
    stream = table.stream("buffered", [0, 1])
    table.flush(stream, 1)
    with Call(table.client) as call:
        assert call.ask(arrow_request(stream, batch_of([2]), offset=2)).append_result.offset == 2
    table.flush(stream, 2)
    assert table.ids() == [0, 1, 2]


def test_concurrent_flushes_show_each_row_once(table: Table) -> None:
    stream = table.stream("buffered", range(100))
    threads = [threading.Thread(target=table.flush, args=(stream, offset)) for offset in range(9, 100, 10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert table.ids() == list(range(100))
