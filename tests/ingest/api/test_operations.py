"""Operation of the server: health, reflection, metrics, limits, expiry, draining, several servers."""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.request import urlopen

import grpc
import pytest
from google.cloud.bigquery import SchemaField
from google.cloud.bigquery_storage_v1 import types
from google.protobuf import descriptor_pool
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from lode.errors import InvalidOptionError
from lode.testing.plugin import LodeServer
from support.ingest.appending import Call, arrow_request, batch_of, columns
from support.ingest.refusals import ends_with
from support.ingest.tables import KINDS, Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SERVICES = (
    "google.cloud.bigquery.storage.v1.BigQueryWrite",
    "google.cloud.bigquery.storage.v1.BigQueryRead",
)
SERVING, NOT_SERVING = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING
EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., LodeServer]]:
    """Starts servers on one lake, each with its own settings."""
    servers: list[LodeServer] = []

    def start(**settings: Any) -> LodeServer:
        servers.append(LodeServer(tmp_path / "lake", **settings))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


@pytest.fixture
def server(serve: Callable[..., LodeServer]) -> LodeServer:
    return serve()


def fetch(server: LodeServer, path: str) -> tuple[int, str]:
    try:
        with urlopen(f"{server.http_url}{path}", timeout=120) as response:
            return response.status, response.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode()


def metrics(server: LodeServer) -> dict[str, float]:
    """Return the samples of /metrics by name and labels."""
    lines = fetch(server, "/metrics")[1].splitlines()
    return {
        name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")
    }


def active(server: LodeServer) -> dict[str, float]:
    found = metrics(server)
    return {kind: found[f'lode_write_streams_active{{stream_type="{kind.upper()}"}}'] for kind in KINDS}


def health_stub(server: LodeServer) -> Any:
    return health_pb2_grpc.HealthStub(server.channel())


# -- health and reflection -----------------------------------------------------------------------------


def test_the_health_service_reports_the_server_and_each_service(server: LodeServer) -> None:
    stub = health_stub(server)
    for service in ("", *SERVICES):
        assert stub.Check(health_pb2.HealthCheckRequest(service=service)).status == SERVING
    with pytest.raises(grpc.RpcError) as unknown:
        stub.Check(health_pb2.HealthCheckRequest(service="nobody"))
    error: Any = unknown.value
    assert error.code() is grpc.StatusCode.NOT_FOUND


def test_healthz_and_readyz_of_a_working_server(server: LodeServer) -> None:
    assert fetch(server, "/healthz") == (200, "ok\n")
    assert fetch(server, "/readyz") == (200, "ready\n")


def test_reflection_lists_the_services_and_describes_them(server: LodeServer) -> None:
    database = ProtoReflectionDescriptorDatabase(server.channel())
    assert {*SERVICES, "grpc.health.v1.Health"} <= set(database.get_services())
    pool = descriptor_pool.DescriptorPool(database)
    write = pool.FindServiceByName(SERVICES[0])
    assert set(write.methods_by_name) == {
        "CreateWriteStream",
        "AppendRows",
        "GetWriteStream",
        "FinalizeWriteStream",
        "BatchCommitWriteStreams",
        "FlushRows",
    }
    append: Any = write.methods_by_name["AppendRows"]
    assert append.client_streaming
    assert append.server_streaming
    assert {"write_stream", "offset", "proto_rows", "arrow_rows"} <= set(append.input_type.fields_by_name)
    assert "row_errors" in append.output_type.fields_by_name
    read = pool.FindServiceByName(SERVICES[1])
    assert set(read.methods_by_name) == {"CreateReadSession", "ReadRows", "SplitReadStream"}


# -- metrics -------------------------------------------------------------------------------------------


def test_active_streams_go_up_with_create_and_down_with_finalize(server: LodeServer) -> None:
    table = Table(server)
    assert active(server) == dict.fromkeys(KINDS, 0.0)
    streams = {kind: [table.stream(kind), table.stream(kind)] for kind in KINDS}
    table.append(table.default, [1])
    assert active(server) == dict.fromkeys(KINDS, 2.0)
    for kind, (first, second) in streams.items():
        table.finalize(first)
        table.finalize(first)
        assert active(server)[kind] == 1
        table.finalize(second)
    assert active(server) == dict.fromkeys(KINDS, 0.0)


def test_active_streams_are_counted_again_after_a_restart(serve: Callable[..., LodeServer]) -> None:
    first = serve()
    table = Table(first)
    table.stream("pending", [1])
    table.pending([2])
    first.stop()
    assert active(serve()) == {"committed": 0, "pending": 1, "buffered": 0}


def test_appends_rows_bytes_commits_and_groups_are_counted(server: LodeServer) -> None:
    table = Table(server)
    table.append(table.default, [1, 2, 3])
    table.append(table.stream("committed"), [4], [5])
    table.append(pending := table.stream("pending"), [6])
    found = metrics(server)
    assert found['lode_appends_total{stream_type="DEFAULT"}'] == 1
    assert found['lode_appends_total{stream_type="COMMITTED"}'] == 2
    assert found['lode_append_rows_total{stream_type="DEFAULT"}'] == 3
    assert found['lode_append_rows_total{stream_type="PENDING"}'] == 1
    assert found["lode_append_bytes_total"] > 4 * batch_of([1]).nbytes
    assert found["lode_commit_seconds_count"] == 3
    assert found["lode_commit_seconds_sum"] > 0
    assert found['lode_commit_seconds_bucket{le="+Inf"}'] == 3
    assert found["lode_commit_group_size_count"] == 3
    assert found["lode_commit_group_size_sum"] == 3
    assert found["lode_commit_swap_size_count"] == found["lode_commit_swap_size_sum"] == 3
    assert found["lode_commit_wait_seconds_count"] == 3
    assert found["lode_commit_wait_seconds_sum"] == 0
    assert found["lode_commit_rows_total"] == 5
    assert found["lode_staged_bytes"] > 0
    table.finalize(pending)
    table.commit(pending)
    assert metrics(server)["lode_commit_rows_total"] == 6


def test_open_calls_are_counted(server: LodeServer) -> None:
    table = Table(server)
    with Call(table.client) as call:
        call.ask(arrow_request(table.default, batch_of([1])))
        assert metrics(server)["lode_append_calls_open"] == 1


def test_errors_are_counted_by_method_and_code(server: LodeServer) -> None:
    table = Table(server)
    stream = table.stream("committed", [1])
    with Call(table.client) as call:
        call.ask(arrow_request(stream, batch_of([1]), offset=0))
        call.ask(arrow_request(stream, batch_of([1]), offset=9))
        with ends_with(grpc.StatusCode.NOT_FOUND):
            call.ask(arrow_request(table.unknown, batch_of([1])))
    with ends_with(grpc.StatusCode.INVALID_ARGUMENT):
        table.flush(stream, 0)
    with ends_with(grpc.StatusCode.NOT_FOUND):
        table.get(table.unknown)
    found = metrics(server)
    for method, code in (
        ("AppendRows", "ALREADY_EXISTS"),
        ("AppendRows", "OUT_OF_RANGE"),
        ("AppendRows", "NOT_FOUND"),
        ("FlushRows", "INVALID_ARGUMENT"),
        ("GetWriteStream", "NOT_FOUND"),
    ):
        assert found[f'lode_errors_total{{code="{code}",method="{method}"}}'] == 1


def test_every_metric_has_a_help_text(server: LodeServer) -> None:
    text = fetch(server, "/metrics")[1]
    for name in re.findall(r"^# TYPE (\S+)", text, re.MULTILINE):
        if not name.endswith("_created"):
            assert re.search(rf"^# HELP {name} \S.*\.$", text, re.MULTILINE), name


# -- limits --------------------------------------------------------------------------------------------


def create(table: Table) -> None:
    wanted = types.WriteStream(type_=2)
    table.client.create_write_stream(parent=table.name, write_stream=wanted, retry=None)


def test_the_limit_of_open_streams_does_not_count_finished_ones(
    serve: Callable[..., LodeServer],
) -> None:
    table = Table(serve(streams=3))
    streams = [table.stream("pending", [1]), table.stream("committed"), table.stream("buffered", [2])]
    with ends_with(EXHAUSTED) as error:
        create(table)
    assert "the limit is 3" in str(error[0])
    table.finalize(streams[0])
    with ends_with(EXHAUSTED):
        create(table)  # its rows are not committed yet
    table.commit(streams[0])
    create(table)
    table.finalize(streams[1])
    create(table)
    table.finalize(streams[2])  # the unflushed row stays invisible
    create(table)


def test_above_the_limit_of_staged_bytes_appends_are_refused_in_the_response_until_a_commit(
    serve: Callable[..., LodeServer],
) -> None:
    table = Table(serve(staged_bytes=200_000))
    pending, buffered = table.stream("pending"), table.stream("buffered")
    batch = batch_of(range(2000))
    with Call(table.client) as call:
        stored = 0
        while "append_result" in (answer := call.ask(arrow_request(pending, batch))):
            stored += 1
            assert stored < 20
        assert answer.error.code == 8
        assert "200,000" in answer.error.message
        assert call.ask(arrow_request(buffered, batch)).error.code == 8
        assert "append_result" in call.ask(arrow_request(table.default, batch_of([1])))
        assert table.finalize(pending) == stored * 2000
        assert not table.commit(pending).stream_errors
        assert call.ask(arrow_request(buffered, batch)).append_result.offset == 0
    assert len(table.ids()) == stored * 2000 + 1


def test_staged_bytes_are_counted_correctly_during_concurrent_appends_and_flushes(server: LodeServer) -> None:
    table = Table(server)
    empty = metrics(server)["lode_staged_bytes"]
    stream = table.stream("buffered")
    with Call(table.client) as call:
        call.ask(arrow_request(stream, batch_of(range(10))))
        for number in range(1, 31):
            call.send(arrow_request(stream, batch_of(range(10))))
            flushing = threading.Thread(target=table.flush, args=(stream, number * 10 - 1))
            flushing.start()
            call.receive()
            flushing.join()
    facts = fetch(server, "/streams")[1]
    held = int(re.findall(r'"staged_bytes": ?(\d+)', facts)[0])
    assert metrics(server)["lode_staged_bytes"] - empty == held


def test_a_request_above_grpcs_limit_ends_only_its_own_call(serve: Callable[..., LodeServer]) -> None:
    table = Table(serve(request_bytes=50_000))
    huge = columns(id=[1], name=["x" * (17 << 20)])
    with Call(table.client) as other:
        other.ask(arrow_request(table.default, batch_of([1])))
        with Call(table.client) as call, ends_with(EXHAUSTED):
            call.ask(arrow_request(table.default, huge))
        assert "append_result" in other.ask(arrow_request(table.default, batch_of([2])))
    assert table.ids() == [1, 2]


# -- expiry --------------------------------------------------------------------------------------------


class StreamClock:
    """The time by which streams expire: it passes only when a test says so."""

    def __init__(self) -> None:
        self.now = 1e6

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def stream_clock(monkeypatch: pytest.MonkeyPatch) -> StreamClock:
    clock = StreamClock()
    for module in ("engine", "streams"):
        monkeypatch.setattr(f"lode.ingest.core.{module}.time", clock)
    return clock


def test_an_unused_stream_is_removed_with_its_staged_rows(
    serve: Callable[..., LodeServer], tmp_path: Path, stream_clock: StreamClock
) -> None:
    # A server looks for unused streams as often as this.
    server = serve(stream_ttl=0.1, state=tmp_path / "state")
    table = Table(server)
    streams = [table.stream(kind, [1]) for kind in KINDS]
    assert len(list((tmp_path / "state" / "streams").iterdir())) == 3
    stream_clock.now += 1
    deadline = threading.Event()
    while any((tmp_path / "state" / "streams").iterdir()):
        assert not deadline.wait(0.05)
    for stream in streams:
        with ends_with(grpc.StatusCode.NOT_FOUND):
            table.get(stream)
    assert metrics(server)["lode_staged_bytes"] == 0
    assert active(server) == dict.fromkeys(KINDS, 0.0)
    table.append(table.default, [2])
    assert table.ids() == [1, 2]  # visible rows of a COMMITTED stream stay


def test_the_disk_space_of_finished_streams_is_released(
    serve: Callable[..., LodeServer], tmp_path: Path
) -> None:
    """Small logs are not compacted at once. The streams stay known."""
    logs = tmp_path / "state" / "streams"
    table = Table(serve(stream_ttl=60.0, state=tmp_path / "state"))
    server: Any = table.server
    pending, buffered = table.pending(range(5000)), table.stream("buffered", range(5000))
    table.commit(pending)
    table.flush(buffered, 99)
    table.finalize(buffered)  # the unflushed rows stay invisible
    assert metrics(table.server)["lode_staged_bytes"] == 0
    assert sum(file.stat().st_size for file in logs.rglob("*") if file.is_file()) > 100_000
    server._running.engine.expire()
    assert sum(file.stat().st_size for file in logs.rglob("*") if file.is_file()) < 2_000
    table.server.stop()
    again = serve(state=tmp_path / "state").write_client()
    wanted = types.BatchCommitWriteStreamsRequest(parent=table.name, write_streams=[pending])
    response = again.batch_commit_write_streams(wanted)
    assert [error.code.name for error in response.stream_errors] == ["STREAM_ALREADY_COMMITTED"]
    assert again.finalize_write_stream(name=buffered).row_count == 5000


def test_a_stream_in_use_does_not_expire(serve: Callable[..., LodeServer], stream_clock: StreamClock) -> None:
    table = Table(serve(stream_ttl=60.0))
    server: Any = table.server
    used, unused = table.stream("committed"), table.stream("committed")
    with Call(table.client) as call:
        for number in range(3):
            stream_clock.now += 40
            assert "append_result" in call.ask(arrow_request(used, batch_of([number])))
    server._running.engine.expire()
    with ends_with(grpc.StatusCode.NOT_FOUND):
        table.get(unused)
    assert table.get(used).name == used


# -- draining ------------------------------------------------------------------------------------------


def test_a_draining_server_is_not_ready_until_its_last_call_ends(serve: Callable[..., LodeServer]) -> None:
    server = serve(grace=60.0)
    watch = health_stub(server).Watch(health_pb2.HealthCheckRequest())
    assert next(watch).status == SERVING
    running: Any = server
    stopping = threading.Thread(target=running._running.stop)
    stopping.start()
    assert next(watch).status == NOT_SERVING
    assert fetch(server, "/readyz") == (503, "stopping\n")
    assert fetch(server, "/healthz") == (200, "ok\n")
    watch.cancel()
    stopping.join(120)
    assert not stopping.is_alive()


# -- several servers -----------------------------------------------------------------------------------


def test_a_second_server_on_the_same_state_is_refused(
    serve: Callable[..., LodeServer], tmp_path: Path
) -> None:
    serve()
    with pytest.raises(InvalidOptionError, match=r"another server runs on the state directory .*--state"):
        serve()
    again = serve(state=tmp_path / "other")
    assert fetch(again, "/healthz")[0] == 200


def test_a_server_that_fails_to_start_releases_its_state_directory(
    serve: Callable[..., LodeServer], tmp_path: Path
) -> None:
    first = serve(state=tmp_path / "a")
    taken = int(first.grpc_address.rpartition(":")[2])
    for ports in ({"port": taken}, {"http_port": taken}):
        with pytest.raises(InvalidOptionError, match=f"127.0.0.1:{taken}"):
            serve(state=tmp_path / "b", **ports)
    assert fetch(serve(state=tmp_path / "b"), "/healthz")[0] == 200


def test_two_servers_write_one_table_with_a_linear_history(
    serve: Callable[..., LodeServer], tmp_path: Path
) -> None:
    one, two = serve(state=tmp_path / "one"), serve(state=tmp_path / "two")
    table = Table(one)
    clients = [one.write_client(), two.write_client()]
    failures: list[Any] = []

    def write(number: int) -> None:
        client = clients[number % 2]
        wanted = types.WriteStream(type_=1)
        stream = client.create_write_stream(parent=table.name, write_stream=wanted).name
        with Call(client) as call:
            for turn in range(15):
                answer = call.ask(arrow_request(stream, batch_of([number * 100 + turn]), offset=turn))
                if "append_result" not in answer:
                    failures.append(answer)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert table.ids() == sorted(number * 100 + turn for number in range(4) for turn in range(15))
    line = list(two.dataset(table.id).history())
    assert [older.id for older in line[1:]] == [newer.parent_id for newer in line[:-1]]
    assert line[-1].parent_id is None


def test_a_server_sees_a_schema_change_of_another_server(
    serve: Callable[..., LodeServer], tmp_path: Path
) -> None:
    one, two = serve(state=tmp_path / "one"), serve(state=tmp_path / "two")
    table = Table(one)
    with Call(two.write_client()) as call:
        call.ask(arrow_request(table.default, batch_of([1])))
        client = one.bigquery_client("p")
        found = client.get_table(table.id)
        found.schema = [*found.schema, SchemaField("more", "STRING")]
        client.update_table(found, ["schema"])
        for _ in range(1000):
            answer = call.ask(arrow_request(table.default, batch_of([2])))
            if "updated_schema" in answer:
                break
            threading.Event().wait(0.05)
        assert [field.name for field in answer.updated_schema.fields] == ["id", "name", "more"]
        wide = columns(id=[3], name=["c"], more=["x"])
        assert "append_result" in call.ask(arrow_request(table.default, wide))
    assert table.rows()[-1] == {"id": 3, "name": "c", "more": "x"}


def test_a_stream_belongs_to_the_server_that_created_it(
    serve: Callable[..., LodeServer], tmp_path: Path
) -> None:
    one, two = serve(state=tmp_path / "one"), serve(state=tmp_path / "two")
    table = Table(one)
    stream = table.pending([1])
    with ends_with(grpc.StatusCode.NOT_FOUND):
        two.write_client().get_write_stream(name=stream)
    assert not table.commit(stream).stream_errors
    assert two.rows(table.id).num_rows == 1
