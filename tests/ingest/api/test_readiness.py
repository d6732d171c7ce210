"""A server is ready while its lake exists, is writable, and is the one it was started on."""

from __future__ import annotations

import asyncio
import http.client
import threading
import time
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from lode.errors import InvalidOptionError, StoreError
from lode.ingest.__main__ import main
from lode.ingest.api.readiness import Readiness
from lode.ingest.catalog.lake import MARKER, Lake
from lode.store import Fault, FaultStore, MemoryStore
from lode.store.wrappers import StoreWrapper
from lode.testing.plugin import LodeServer
from support.ingest.tables import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import lode

T = TypeVar("T")
SERVING, NOT_SERVING = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING
PATIENCE = 300.0


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LodeServer]:
    running = LodeServer(tmp_path / "lake", state=tmp_path / "state")
    yield running
    running.stop()


def readyz(server: LodeServer) -> tuple[int, str]:
    try:
        with urlopen(f"{server.http_url}/readyz", timeout=120) as response:
            return response.status, response.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode()


def health(server: LodeServer) -> int:
    stub: Any = health_pb2_grpc.HealthStub(server.channel())
    status: int = stub.Check(health_pb2.HealthCheckRequest(), timeout=120).status
    return status


def becomes(look: Callable[[], T], wanted: T) -> None:
    """Wait until the cached answer has expired."""
    deadline = time.monotonic() + PATIENCE
    while (found := look()) != wanted:
        assert time.monotonic() < deadline, found
        threading.Event().wait(0.05)


def test_a_server_is_not_ready_while_its_lake_is_missing(server: LodeServer, tmp_path: Path) -> None:
    assert (readyz(server), health(server)) == ((200, "ready\n"), SERVING)
    (tmp_path / "lake").rename(tmp_path / "away")
    becomes(lambda: readyz(server), (503, "the lake is missing\n"))
    assert health(server) == NOT_SERVING
    (tmp_path / "lake").mkdir()  # as for an unmounted disk
    becomes(lambda: readyz(server), (503, "the lake is missing\n"))
    assert list((tmp_path / "lake").iterdir()) == []
    (tmp_path / "lake").rmdir()
    (tmp_path / "away").rename(tmp_path / "lake")
    becomes(lambda: readyz(server), (200, "ready\n"))
    becomes(lambda: health(server), SERVING)


def test_another_folder_in_the_place_of_the_lake_is_detected(server: LodeServer, tmp_path: Path) -> None:
    (tmp_path / "lake").rename(tmp_path / "away")
    LodeServer(tmp_path / "lake").stop()
    becomes(lambda: readyz(server), (503, "the lake is missing\n"))


def test_another_lake_at_the_same_address_is_detected(tmp_path: Path) -> None:
    store, other = MemoryStore(), MemoryStore()
    lake = Lake(store)
    lake.open(tmp_path / "state")
    lake.check()
    Lake(other).open(tmp_path / "other")
    store.delete(MARKER)
    assert lake.problem() == "the lake is missing"
    with pytest.raises(StoreError, match=r"the lake is missing \(memory://\): bring it back"):
        lake.check()
    store.put(MARKER, other.get(MARKER))
    assert lake.problem() == "another lake is at the address of this server's lake"
    with pytest.raises(StoreError, match="another lake is at the address"):
        lake.check()


def test_a_state_directory_with_streams_does_not_begin_another_lake(tmp_path: Path) -> None:
    """Its own note of the lake is lost, and the lake is not mounted."""
    (tmp_path / "streams/s-1").mkdir(parents=True)
    store = MemoryStore()
    with pytest.raises(InvalidOptionError, match=r"has write streams, and the lake memory:// has no table"):
        Lake(store).open(tmp_path)
    assert list(store.list()) == []
    store.put("catalog/p/d/dataset.json", b"{}")  # a lake from before there were markers
    Lake(store).open(tmp_path)
    assert store.exists(MARKER)


def test_watchers_of_grpc_health_are_notified_of_a_missing_lake(server: LodeServer, tmp_path: Path) -> None:
    stub: Any = health_pb2_grpc.HealthStub(server.channel())
    watch = stub.Watch(health_pb2.HealthCheckRequest(), timeout=PATIENCE)
    assert next(watch).status == SERVING
    (tmp_path / "lake").rename(tmp_path / "away")
    assert next(watch).status == NOT_SERVING


@pytest.mark.parametrize("method", ["get", "compare_and_swap"])
def test_a_lake_that_cannot_be_read_or_written_is_a_problem(tmp_path: Path, method: str) -> None:
    store = FaultStore(MemoryStore())
    lake = Lake(store)
    lake.open(tmp_path)
    store.add(Fault(method, MARKER, times=None, error=StoreError("no answer")))
    assert lake.problem() == "the lake cannot be used"
    store.clear()
    assert lake.problem() is None


class HangingStore(StoreWrapper):
    """A lake that answers after its release."""

    def __init__(self, inner: lode.Store) -> None:
        super().__init__(inner)
        self.let_go = threading.Event()
        self.calls = 0

    def around(self, method: str, path: str, call: Callable[[], T]) -> T:
        self.calls += 1
        assert self.let_go.wait(PATIENCE)
        return call()


def test_a_hanging_lake_is_checked_once_with_a_timeout(tmp_path: Path) -> None:
    inner = MemoryStore()
    Lake(inner).open(tmp_path)
    store = HangingStore(inner)
    store.let_go.set()
    lake = Lake(store)
    lake.open(tmp_path)
    store.let_go.clear()
    calls = store.calls

    async def ask() -> list[str | None]:
        readiness = Readiness(lake, max_wait=0.1)
        found = [await readiness.problem() for _ in range(5)]
        store.let_go.set()
        while found[-1] is not None:
            found.append(await readiness.problem())
            await asyncio.sleep(0.01)
        return found

    found = asyncio.run(ask())
    assert found[:5] == ["the lake does not answer"] * 5
    assert store.calls <= calls + 4


def test_a_server_is_alive_while_all_its_threads_wait_for_the_lake(tmp_path: Path) -> None:
    store = HangingStore(MemoryStore())
    store.let_go.set()
    server = LodeServer(store, state=tmp_path / "state")
    store.let_go.clear()
    address = server.http_url.removeprefix("http://")
    waiting = [http.client.HTTPConnection(address, timeout=120) for _ in range(60)]
    try:
        for connection in waiting:
            connection.request("GET", "/bigquery/v2/projects/p/datasets/d")
        with urlopen(f"{server.http_url}/healthz", timeout=120) as response:
            assert response.status == 200
        store.let_go.set()
        assert {connection.getresponse().status for connection in waiting} == {404}
    finally:
        store.let_go.set()
        for connection in waiting:
            connection.close()
        server.stop()


# -- starting ----------------------------------------------------------------------------------------


def serve(*options: object) -> int:
    return main(["--port", "0", "--http-port", "0", *map(str, options)])


def test_a_server_does_not_start_on_a_lake_that_is_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "lake").write_text("")
    assert serve("--root", tmp_path / "lake", "--state", tmp_path / "state") == 1
    error = capsys.readouterr().err
    assert error.startswith(f"lode serve: the lake file://{tmp_path}/lake cannot be used: ")
    assert error.count("\n") == 1


def test_a_server_does_not_start_when_the_object_store_is_down(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = {
        "endpoint": "http://127.0.0.1:1",
        "access_key_id": "key",
        "secret_access_key": "secret",
        "region": "us-east-1",
        "allow_http": "true",
        "connect_timeout": "1s",
    }
    given = [part for pair in options.items() for part in ("-o", "=".join(pair))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lode.ingest.api.readiness.MAX_START_SECONDS", 2.0)
        assert serve("--root", "s3://lake/here", "--state", tmp_path / "state", *given) == 1
    error = capsys.readouterr().err
    assert error.startswith("lode serve: the lake s3://lake/here ")
    assert "secret" not in error


def test_a_state_directory_of_another_lake_is_refused_and_its_streams_stay(tmp_path: Path) -> None:
    first = LodeServer(tmp_path / "lake", state=tmp_path / "state")
    table = Table(first)
    stream = table.stream("pending", [1, 2])
    first.stop()
    LodeServer(tmp_path / "other").stop()
    for root in (tmp_path / "other", tmp_path / "empty"):
        with pytest.raises(InvalidOptionError, match="belongs to another lake than"):
            LodeServer(root, state=tmp_path / "state")
    again = LodeServer(tmp_path / "lake", state=tmp_path / "state")
    try:
        assert again.write_client().finalize_write_stream(name=stream).row_count == 2
    finally:
        again.stop()


def test_a_damaged_mark_is_named(tmp_path: Path) -> None:
    LodeServer(tmp_path / "lake").stop()
    (tmp_path / "lake" / MARKER).write_text("{")
    with pytest.raises(InvalidOptionError, match=r"catalog/lake\.json of the lake .* is damaged"):
        LodeServer(tmp_path / "lake", state=tmp_path / "new")


def test_the_mark_is_no_project(server: LodeServer) -> None:
    assert list(server.bigquery_client("p").list_projects()) == []
