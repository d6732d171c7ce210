"""Answers for a failing or damaged lake: the failure, its place, and whether to retry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc
import pytest
from google.api_core import exceptions
from google.cloud.bigquery_storage_v1 import types

from lode.errors import StoreError
from lode.ingest.api.errors import internal, without_secrets
from lode.ingest.status import Code
from lode.store import Fault, FaultStore, MemoryStore
from lode.testing.plugin import LodeServer
from support.ingest.refusals import ends_with

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NAME = "projects/p/datasets/d/tables/t"


@pytest.fixture
def store() -> FaultStore:
    return FaultStore(MemoryStore("failing"))


@pytest.fixture
def server(store: FaultStore, tmp_path: Path) -> Iterator[LodeServer]:
    running = LodeServer(store, state=tmp_path / "state")
    running.create_table("p.d.t", [{"name": "id", "type": "INT64"}])
    yield running
    store.clear()
    running.stop()


def calls(server: LodeServer) -> list[Any]:
    """Call every unary method that reads a table's definition."""
    write, read = server.write_client(), server.read_client()
    stream = f"{NAME}/streams/_default"
    wanted = types.WriteStream(type_=1)
    session = types.ReadSession(table=NAME, data_format=types.DataFormat.ARROW)
    return [
        lambda: write.create_write_stream(parent=NAME, write_stream=wanted, retry=None, timeout=60),
        lambda: write.get_write_stream(name=stream, retry=None, timeout=60),
        lambda: read.create_read_session(
            parent="projects/p", read_session=session, max_stream_count=1, retry=None, timeout=60
        ),
    ]


def expire_definitions(server: LodeServer) -> None:
    running: Any = server
    running._running.engine.catalog._tables._seen.clear()
    running._running.engine.catalog._datasets._seen.clear()


def test_a_failing_lake_is_unavailable_and_named_on_every_method(
    server: LodeServer, store: FaultStore
) -> None:
    for call in calls(server):
        expire_definitions(server)
        store.add(Fault("get", "catalog/p/*", times=None, error=StoreError("no route to host")))
        with ends_with(grpc.StatusCode.UNAVAILABLE) as error:
            call()
        assert "lake memory://failing" in str(error[0])
        assert "no route to host" in str(error[0])
        store.clear()
        call()


def test_a_failing_lake_is_a_backend_error_in_rest(server: LodeServer, store: FaultStore) -> None:
    store.add(Fault("get", "catalog/p/*", times=None, error=StoreError("no route to host")))
    client: Any = server.bigquery_client("p")
    with pytest.raises(exceptions.ServiceUnavailable, match=r"lake memory://failing.*no route") as refused:
        client.get_table("p.d.t", retry=None)
    assert refused.value.errors[0]["reason"] == "backendError"


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"\xff",
        b'{"kind": "lode-table"}',
        b'{"kind": "something else"}',
    ],
)
def test_a_damaged_definition_is_named_and_not_retried(
    server: LodeServer, store: FaultStore, content: bytes
) -> None:
    path = "catalog/p/d/tables/t.json"
    good = store.get(path)
    assert store.compare_and_swap(path, good, content)
    for call in calls(server):
        expire_definitions(server)
        with ends_with(grpc.StatusCode.DATA_LOSS) as error:
            call()
        assert path in str(error[0])
    client = server.bigquery_client("p")
    # With the client's retries: this reason is not retried.
    with pytest.raises(exceptions.InternalServerError, match=r"catalog/p/d/tables/t\.json") as refused:
        client.get_table("p.d.t")
    assert refused.value.errors[0]["reason"] == "dataLoss"


def test_a_definition_with_invalid_columns_is_named(server: LodeServer, store: FaultStore) -> None:
    path = "catalog/p/d/tables/t.json"
    good = store.get(path)
    assert store.compare_and_swap(path, good, good.replace(b'"INT64"', b'"NOPE"'))
    client = server.bigquery_client("p")
    with pytest.raises(exceptions.InternalServerError, match=r"catalog/p/d/tables/t\.json"):
        client.get_table("p.d.t")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://a.example/b?sig=secret failed", "https://a.example/b failed"),
        ("(http://key:secret@a.example/b)", "(http://a.example/b)"),
        ("s3://bucket/lake: what?", "s3://bucket/lake: what?"),
        ("az://c/x?st=1&sig=2', then", "az://c/x', then"),
    ],
)
def test_messages_have_no_secrets_of_urls(text: str, shown: str) -> None:
    assert without_secrets(text) == shown
    assert shown in internal(StoreError(text)).message


def test_an_error_of_the_server_has_a_general_message() -> None:
    refusal = internal(KeyError("secret"))
    assert refusal.code is Code.INTERNAL
    assert "secret" not in refusal.message
