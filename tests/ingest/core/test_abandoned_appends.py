"""Clients that disconnect during an append, and send the same rows again."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

import pytest
from google.cloud.bigquery_storage_v1 import types

from lode.store.memory import MemoryStore
from lode.testing.plugin import LodeServer
from support.ingest.appending import Call, arrow_request, batch_of
from support.ingest.gates import GateStore
from support.ingest.refusals import Codes, storage_error
from support.ingest.tables import KINDS, Table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

METHOD = "/google.cloud.bigquery.storage.v1.BigQueryWrite/AppendRows"


@pytest.fixture
def gate() -> GateStore:
    return GateStore(MemoryStore())


@pytest.fixture
def table(tmp_path: Path, gate: GateStore, caplog: pytest.LogCaptureFixture) -> Iterator[Table]:
    root: Any = gate
    server = LodeServer(root, state=tmp_path / "state", window_bytes=1 << 20)
    yield Table(server)
    gate.let_go()
    server.stop()
    logged = [*caplog.get_records("call"), *caplog.get_records("teardown")]
    assert [record for record in logged if record.levelno >= logging.ERROR] == []


def send_and_leave(table: Table, *requests: types.AppendRowsRequest, once: threading.Event) -> None:
    """Send requests on a new call, and cancel it without reading a response when ``once`` is set."""
    left = threading.Event()

    def all_requests() -> Iterator[bytes]:
        for request in requests:
            yield types.AppendRowsRequest.serialize(request)
        left.wait()

    call = table.server.channel().stream_stream(METHOD)(all_requests())
    assert once.wait(120)
    call.cancel()
    left.set()


def test_an_append_is_stored_and_the_stream_continues_after_its_client_disconnects(
    table: Table, gate: GateStore
) -> None:
    stream = table.stream("committed")
    gate.shut()
    send_and_leave(table, arrow_request(stream, batch_of([0, 1]), offset=0), once=gate.arrived)
    gate.let_go()
    with Call(table.client) as call:
        answer = call.ask(arrow_request(stream, batch_of([0, 1]), offset=0))
        assert storage_error(answer).code == Codes.OFFSET_ALREADY_EXISTS
        assert table.ids() == [0, 1]
        assert call.ask(arrow_request(stream, batch_of([2]), offset=2)).append_result.offset == 2
    assert table.ids() == [0, 1, 2]


def test_a_client_that_disconnects_does_not_affect_others(table: Table, gate: GateStore) -> None:
    """Two appends share a commit: one client disconnects, the other gets its response."""
    streams = [table.stream("committed"), table.stream("committed"), table.stream("committed")]
    gate.shut()
    with Call(table.client) as call:
        call.send(arrow_request(streams[0], batch_of([0])))
        answers: list[types.AppendRowsResponse] = []
        waiting = threading.Thread(target=lambda: answers.append(call.receive()))
        waiting.start()
        send_and_leave(table, arrow_request(streams[1], batch_of([1]), offset=0), once=gate.arrived)
        send_and_leave(table, arrow_request(streams[2], batch_of([2]), offset=0), once=gate.arrived)
        gate.let_go()
        waiting.join(120)
    assert [answer.append_result.offset for answer in answers] == [0]


def test_an_offset_in_flight_exists_only_after_it_is_stored(table: Table, gate: GateStore) -> None:
    """A client loses its connection and retries while its first attempt still waits, and then fails."""
    stream = table.stream("committed")
    gate.shut()
    send_and_leave(table, arrow_request(stream, batch_of([0]), offset=0), once=gate.arrived)
    answers: list[types.AppendRowsResponse] = []
    with Call(table.client) as call:
        call.send(arrow_request(stream, batch_of([0]), offset=0))
        again = threading.Thread(target=lambda: answers.append(call.receive()))
        again.start()
        again.join(0.3)
        assert answers == [], "the response came before the outcome was known"
        gate.let_fail()
        again.join(120)
    assert [answer.append_result.offset for answer in answers] == [0], answers
    assert table.ids() == [0]


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_already_exist_are_stored_whenever_the_client_disconnects(table: Table, kind: str) -> None:
    streams = [table.stream(kind) for _ in range(25)]
    left = threading.Event()
    for number, stream in enumerate(streams):
        timer = threading.Timer(number * 0.0004, left.set)
        timer.start()
        send_and_leave(table, arrow_request(stream, batch_of([number]), offset=0), once=left)
        left.clear()
        with Call(table.client) as call:
            answer = call.ask(arrow_request(stream, batch_of([number]), offset=0))
            assert answer.error.code in (0, 6)
        if kind == "buffered":
            table.flush(stream, 0)
        assert table.finalize(stream) == 1
    if kind == "pending":
        table.commit(*streams)
    assert table.ids() == list(range(25))


def test_requests_of_disconnected_clients_return_their_memory(table: Table) -> None:
    """The window is 1 MB: clients that never read a response send ten times that."""
    batch = batch_of(range(1500))
    for _ in range(10):
        sent = threading.Event()
        requests = [arrow_request(table.default, batch) for _ in range(30)]
        timer = threading.Timer(0.02, sent.set)
        timer.start()
        send_and_leave(table, *requests, once=sent)
    with Call(table.client) as call:
        for _ in range(20):
            assert "append_result" in call.ask(arrow_request(table.default, batch))


def test_a_client_that_reads_no_responses_does_not_block_others(table: Table) -> None:
    """Its rows are stored, so they take no memory; only its responses wait."""
    batch = batch_of(range(1500))
    left = threading.Event()
    sent = threading.Semaphore(0)

    def all_requests() -> Iterator[bytes]:
        for _ in range(200):
            yield types.AppendRowsRequest.serialize(arrow_request(table.default, batch))
            sent.release()
        left.wait()

    call = table.server.channel().stream_stream(METHOD)(all_requests())
    for _ in range(100):
        assert sent.acquire(timeout=120)
    with Call(table.client) as other:
        for _ in range(5):
            assert "append_result" in other.ask(arrow_request(table.default, batch))
    call.cancel()
    left.set()
