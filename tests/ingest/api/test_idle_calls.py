"""Calls are long-lived and mostly idle: a thousand of them must cost next to nothing."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from google.cloud.bigquery_storage_v1 import types

from support.ingest.appending import arrow_request, batch_of, columns
from support.ingest.memory import MEGABYTE, resident
from support.ingest.processes import process_with_table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Self

    from support.ingest.processes import ServerProcess

DEFAULT = "projects/p/datasets/d/tables/t/_default"
METHOD = "/google.cloud.bigquery.storage.v1.BigQueryWrite/AppendRows"
IDLE, CHANNELS, WRITERS, APPENDS = 1000, 4, 4, 25
SMALL = types.AppendRowsRequest.serialize(arrow_request(DEFAULT, batch_of([1])))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with process_with_table(tmp_path / "lake") as process:
        yield process


class Calls:
    """Calls over a few connections, all on one event loop: a thousand threads would measure ourselves."""

    def __init__(self, server: ServerProcess) -> None:
        # A pool of its own for each, or gRPC would make them share one connection.
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_send_message_length", -1)]
        address = server.grpc_address
        self._channels = [grpc.aio.insecure_channel(address, options=options) for _ in range(CHANNELS)]
        self._opened = 0

    def open(self) -> Any:
        self._opened += 1
        method: Any = self._channels[self._opened % CHANNELS].stream_stream(METHOD)
        return method()

    async def ask(self, call: Any, request: bytes) -> None:
        await call.write(request)
        answer = types.AppendRowsResponse.deserialize(await call.read())
        assert "append_result" in answer, answer

    async def idle(self, count: int, request: bytes) -> list[Any]:
        """Calls that have had an answer each and say nothing more."""
        calls = []
        for _ in range(count // 50):
            some = [self.open() for _ in range(50)]
            await asyncio.gather(*(self.ask(call, request) for call in some))
            calls += some
        return calls

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await asyncio.gather(*(channel.close() for channel in self._channels))


def test_writers_are_answered_beside_a_thousand_idle_calls(server: ServerProcess) -> None:
    async def run() -> int:
        async with Calls(server) as calls:
            await calls.idle(50, SMALL)  # what the first calls load is not the price of a call
            before = resident(server.pid)
            held = await calls.idle(IDLE, SMALL)
            grown = resident(server.pid) - before

            async def write() -> None:
                call = calls.open()
                for _ in range(APPENDS):
                    await calls.ask(call, SMALL)

            await asyncio.wait_for(asyncio.gather(*(write() for _ in range(WRITERS))), 60)
            await asyncio.wait_for(asyncio.gather(*(calls.ask(call, SMALL) for call in held)), 60)
            return grown

    per_call = asyncio.run(run()) / IDLE
    assert per_call < 100_000, f"an idle call takes {per_call:,.0f} bytes"


def test_an_idle_call_does_not_hold_on_to_its_last_request(server: ServerProcess) -> None:
    batch = columns(id=[1], name=["x" * MEGABYTE])
    large = types.AppendRowsRequest.serialize(arrow_request(DEFAULT, batch))

    async def run() -> int:
        async with Calls(server) as calls:
            # As many before: what an allocator keeps for them serves those that follow.
            await calls.idle(200, large)
            before = resident(server.pid)
            held = await calls.idle(200, large)
            assert len(held) == 200
            return resident(server.pid) - before

    assert asyncio.run(run()) < 100 * MEGABYTE
