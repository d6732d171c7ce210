"""Acknowledged rows survive kill -9, no row is stored twice, and streams resume."""

from __future__ import annotations

import json
import random
import shutil
import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any
from urllib.request import Request, urlopen

import grpc
import pyarrow as pa
import pytest
from google.api_core.exceptions import GoogleAPICallError
from google.cloud.bigquery_storage_v1 import types

import lode
from lode.ingest.catalog.catalog import Catalog
from lode.ingest.names import parse_table
from lode.store.local import LocalStore
from support.ingest.appending import FIELDS, Call, arrow_request, batch_of
from support.ingest.processes import ServerProcess

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lode.store.protocol import Store
    from lode.testing.servers import S3Server

NAME = "projects/p/datasets/d/tables/t"
COMMITTED, PENDING, BUFFERED = 1, 2, 3


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "lake") as process:
        create_table(process, FIELDS)
        yield process


def create_table(server: ServerProcess, fields: list[dict[str, str]], **more: Any) -> None:
    base = f"{server.http_url}/bigquery/v2/projects/p/datasets"
    of_dataset = {"projectId": "p", "datasetId": "d"}
    table = {"tableReference": {**of_dataset, "tableId": "t"}, "schema": {"fields": fields}, **more}
    for url, body in ((base, {"datasetReference": of_dataset}), (f"{base}/d/tables", table)):
        urlopen(Request(url, json.dumps(body).encode(), {"content-type": "application/json"})).close()


def new_stream(server: ServerProcess, kind: int) -> str:
    wanted = types.WriteStream(type_=kind)
    return server.write_client().create_write_stream(parent=NAME, write_stream=wanted).name


def ids_in(server: ServerProcess, store: Store | None = None) -> list[int]:
    """The rows that the library reads from the lake, without the server."""
    store = store or LocalStore(server.root)
    dataset = Catalog(store).table(parse_table(NAME)).open(store)
    found: list[Any] = dataset.scan().read_all().column("id").to_pylist() if dataset.exists else []
    return found


def commit(server: ServerProcess, *streams: str) -> types.BatchCommitWriteStreamsResponse:
    return server.write_client().batch_commit_write_streams(
        types.BatchCommitWriteStreamsRequest(parent=NAME, write_streams=streams)
    )


def restart(server: ServerProcess) -> None:
    server.kill()
    server.start()


def test_a_committed_stream_resumes_at_its_offset(server: ServerProcess) -> None:
    stream = new_stream(server, COMMITTED)
    with Call(server.write_client()) as call:
        call.ask(arrow_request(stream, batch_of([0, 1, 2]), offset=0))
    restart(server)
    with Call(server.write_client()) as call:
        assert call.ask(arrow_request(stream, batch_of([0, 1, 2]), offset=0)).error.code == 6
        assert call.ask(arrow_request(stream, batch_of([3]), offset=3)).append_result.offset == 3
    assert ids_in(server) == [0, 1, 2, 3]


def test_a_pending_stream_keeps_its_rows_and_continues(server: ServerProcess) -> None:
    stream = new_stream(server, PENDING)
    with Call(server.write_client()) as call:
        call.ask(arrow_request(stream, batch_of([0, 1, 2]), offset=0))
    restart(server)
    with Call(server.write_client()) as call:
        assert call.ask(arrow_request(stream, batch_of([3, 4]), offset=3)).append_result.offset == 3
    assert server.write_client().finalize_write_stream(name=stream).row_count == 5
    restart(server)
    assert ids_in(server) == []
    assert not commit(server, stream).stream_errors
    restart(server)
    again = commit(server, stream)
    assert [error.code.name for error in again.stream_errors] == ["STREAM_ALREADY_COMMITTED"]
    assert ids_in(server) == [0, 1, 2, 3, 4]


def test_a_buffered_stream_keeps_visible_and_staged_rows(server: ServerProcess) -> None:
    stream = new_stream(server, BUFFERED)
    with Call(server.write_client()) as call:
        call.ask(arrow_request(stream, batch_of(range(10)), offset=0))
    server.write_client().flush_rows(types.FlushRowsRequest(write_stream=stream, offset=3))
    restart(server)
    assert ids_in(server) == [0, 1, 2, 3]
    with Call(server.write_client()) as call:
        assert call.ask(arrow_request(stream, batch_of([10]), offset=10)).append_result.offset == 10
    server.write_client().flush_rows(types.FlushRowsRequest(write_stream=stream, offset=10))
    assert ids_in(server) == list(range(11))


def test_a_finalized_stream_is_finalized_after_a_restart(server: ServerProcess) -> None:
    stream = new_stream(server, COMMITTED)
    with Call(server.write_client()) as call:
        call.ask(arrow_request(stream, batch_of([0])))
    server.write_client().finalize_write_stream(name=stream)
    restart(server)
    with Call(server.write_client()) as call:
        assert call.ask(arrow_request(stream, batch_of([1]), offset=1)).error.code == 3


def test_a_schema_change_reaches_streams_from_before_a_restart(server: ServerProcess) -> None:
    stream = new_stream(server, PENDING)
    with Call(server.write_client()) as call:
        call.ask(arrow_request(stream, batch_of([0])))
    fields = [*FIELDS, {"name": "more", "type": "STRING"}]
    url = f"{server.http_url}/bigquery/v2/{NAME}"
    body = json.dumps({"schema": {"fields": fields}}).encode()
    urlopen(Request(url, body, {"content-type": "application/json"}, method="PATCH")).close()
    restart(server)
    server.write_client().finalize_write_stream(name=stream)
    commit(server, stream)
    assert ids_in(server) == [0]


def test_a_terminated_server_answers_accepted_requests_and_exits_with_0(server: ServerProcess) -> None:
    stream = new_stream(server, COMMITTED)
    call = Call(server.write_client())
    for number in range(20):
        call.send(arrow_request(stream, batch_of([number]), offset=number))
    answers = [call.receive().append_result.offset]
    ended: list[int] = []
    stopping = threading.Thread(target=lambda: ended.append(server.terminate()))
    stopping.start()
    with pytest.raises(GoogleAPICallError) as ending:
        answers.extend(iter(lambda: call.receive().append_result.offset, None))
    stopping.join()
    assert ending.value.grpc_status_code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
    assert ended == [0]
    assert answers == list(range(len(answers)))
    assert ids_in(server)[: len(answers)] == answers


class Writer(threading.Thread):
    """A client that appends numbered rows with offsets and retries forever, as clients do."""

    def __init__(self, server: ServerProcess, stream: str, first: int, per_append: int) -> None:
        super().__init__()
        self._server = server
        self._stream = stream
        self._first = first
        self._per_append = per_append
        self.acknowledged = 0
        self.stopping = threading.Event()

    def run(self) -> None:
        while not self.stopping.is_set():
            try:
                self._append()
            except (GoogleAPICallError, ValueError):  # the server is down, or its channel was closed
                time.sleep(0.02)

    def _append(self) -> None:
        with Call(self._server.write_client()) as call:
            while not self.stopping.is_set():
                first = self._first + self.acknowledged
                rows = batch_of(range(first, first + self._per_append))
                answer = call.ask(arrow_request(self._stream, rows, offset=self.acknowledged))
                # ALREADY_EXISTS: a crash lost the response, but not the rows.
                assert answer.error.code in (0, 6, 14), answer
                if answer.error.code in (0, 6):
                    self.acknowledged += self._per_append


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_or_doubled_under_kill_9(server: ServerProcess) -> None:
    kinds = [COMMITTED, COMMITTED, PENDING, BUFFERED]
    streams = [new_stream(server, kind) for kind in kinds]
    writers = [
        Writer(server, stream, number * 1_000_000, 7 + number) for number, stream in enumerate(streams)
    ]
    for writer in writers:
        writer.start()
    chance = random.Random(20261115)
    for _ in range(5):
        time.sleep(chance.uniform(0.2, 0.9))
        restart(server)
    deadline = time.monotonic() + 60
    while not all(writer.acknowledged for writer in writers) and time.monotonic() < deadline:
        time.sleep(0.02)
    for writer in writers:
        writer.stopping.set()
    for writer in writers:
        writer.join()
    if writers[3].acknowledged:
        last = writers[3].acknowledged - 1
        server.write_client().flush_rows(types.FlushRowsRequest(write_stream=streams[3], offset=last))
    for stream in streams:
        server.write_client().finalize_write_stream(name=stream)
    commit(server, streams[2])
    check_rows(ids_in(server), writers)


def check_rows(found: list[int], writers: list[Writer]) -> None:
    assert len(found) == len(set(found)), "a row was stored twice"
    assert sum(writer.acknowledged for writer in writers) > 0
    for number, writer in enumerate(writers):
        mine = [row - number * 1_000_000 for row in found if row // 1_000_000 == number]
        assert mine == sorted(mine)
        assert mine[: writer.acknowledged] == list(range(writer.acknowledged)), (
            "an acknowledged row is missing"
        )


class Changer(threading.Thread):
    """A client that changes its own keys in turn, each time with a larger number, and retries forever."""

    def __init__(self, server: ServerProcess, keys: range) -> None:
        super().__init__()
        self._server = server
        self.keys = keys
        self.sent = 0
        self.acknowledged = 0
        self.stopping = threading.Event()

    def run(self) -> None:
        while not self.stopping.is_set():
            try:
                with Call(self._server.write_client()) as call:
                    while not self.stopping.is_set():
                        self._change(call)
            except (GoogleAPICallError, ValueError):  # the server is down, or its channel was closed
                time.sleep(0.02)

    def rows_after(self, turn: int) -> dict[int, str]:
        """The names of its keys after so many turns."""
        return {key: f"turn {turn}" for key in self.keys if turn % 3 or not key % 2}

    def _change(self, call: Call) -> None:
        self.sent = turn = self.acknowledged + 1
        # Every other key is deleted in every third turn. An old change of each key comes again, too late.
        kinds = ["DELETE" if turn % 3 == 0 and key % 2 else "UPSERT" for key in self.keys]
        names = [f"turn {turn}"] * len(self.keys)
        rows = pa.RecordBatch.from_pydict(
            {
                "id": [*self.keys, *self.keys],
                "name": [*names, *["late"] * len(self.keys)],
                "_CHANGE_TYPE": [*kinds, *["UPSERT"] * len(self.keys)],
                "_CHANGE_SEQUENCE_NUMBER": [f"{turn - at:X}" for at in (0, 1) for _ in self.keys],
            }
        )
        answer = call.ask(arrow_request(f"{NAME}/streams/_default", rows))
        assert answer.error.code in (0, 14), answer
        if not answer.error.code:
            self.acknowledged = turn


@pytest.mark.slow
def test_acknowledged_changes_survive_kill_9_and_old_ones_stay_without_effect(tmp_path: Path) -> None:
    key = {"primaryKey": {"columns": ["id"]}}
    with ServerProcess(tmp_path / "lake") as server:
        create_table(server, FIELDS, tableConstraints=key)
        changers = [Changer(server, range(first, first + 4)) for first in (0, 100)]
        for changer in changers:
            changer.start()
        for _ in range(3):
            goals = [changer.acknowledged + 4 for changer in changers]
            wait_until(
                lambda goals=goals: all(
                    changer.acknowledged >= goal for changer, goal in zip(changers, goals, strict=True)
                )
            )
            restart(server)
        for changer in changers:
            changer.stopping.set()
        for changer in changers:
            changer.join()
        store = LocalStore(server.root)
        rows = Catalog(store).table(parse_table(NAME)).open(store).scan().read_all()
    names: dict[Any, Any] = dict(
        zip(rows.column("id").to_pylist(), rows.column("name").to_pylist(), strict=True)
    )
    assert len(names) == rows.num_rows, "a key is there twice"
    for changer in changers:
        # An unanswered last request may have been applied, as a whole.
        possible = [changer.rows_after(turn) for turn in {changer.acknowledged, changer.sent}]
        assert {id: name for id, name in names.items() if id in changer.keys} in possible


def wait_until(is_done: Any) -> None:
    deadline = time.monotonic() + 300
    while not is_done():
        assert time.monotonic() < deadline, "nothing is acknowledged any more"
        time.sleep(0.02)


@pytest.mark.slow
def test_two_servers_on_one_table_of_an_s3_server_lose_and_double_nothing_under_kill_9(
    s3_server: S3Server, tmp_path: Path
) -> None:
    url = s3_server.create("two-servers")
    given = {**s3_server.options, **s3_server.options["client_options"]}
    del given["client_options"]
    options = [word for name, value in given.items() for word in ("--store-option", f"{name}={value}")]
    with ExitStack() as stack:
        servers = [
            stack.enter_context(ServerProcess(url, "--state", str(tmp_path / name), *options))
            for name in ("one", "two")
        ]
        create_table(servers[0], FIELDS)
        writers = [
            Writer(server, new_stream(server, COMMITTED), number * 1_000_000, 7)
            for number, server in enumerate(servers * 3)
        ]
        for writer in writers:
            writer.start()
        for server in (servers[0], servers[1], servers[0]):
            goal = sum(writer.acknowledged for writer in writers) + 70
            deadline = time.monotonic() + 300
            while sum(writer.acknowledged for writer in writers) < goal:
                assert time.monotonic() < deadline, "no rows are acknowledged any more"
                time.sleep(0.02)
            restart(server)
        for writer in writers:
            writer.stopping.set()
        for writer in writers:
            writer.join()
    store = lode.open_store(url, **s3_server.options)
    check_rows(ids_in(servers[0], store), writers)
    dataset = Catalog(store).table(parse_table(NAME)).open(store)
    assert lode.verify(dataset).problems == ()


def test_a_lake_restored_from_an_older_copy_is_authoritative(tmp_path: Path) -> None:
    """Its streams resume after its visible rows, not after later rows in the state directory."""
    lake, copy = tmp_path / "lake", tmp_path / "copy"
    with ServerProcess(lake, "--state", str(tmp_path / "state")) as server:
        create_table(server, FIELDS)
        stream = new_stream(server, COMMITTED)
        with Call(server.write_client()) as call:
            call.ask(arrow_request(stream, batch_of([0, 1]), offset=0))
        server.terminate()
        shutil.copytree(lake, copy)
        server.start()
        with Call(server.write_client()) as call:
            call.ask(arrow_request(stream, batch_of([2, 3]), offset=2))
        server.terminate()
        shutil.rmtree(lake)
        copy.rename(lake)
        server.start()
        with Call(server.write_client()) as call:
            assert call.ask(arrow_request(stream, batch_of([2, 3]), offset=2)).append_result.offset == 2
        assert ids_in(server) == [0, 1, 2, 3]
