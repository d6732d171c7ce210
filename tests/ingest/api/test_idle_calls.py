"""Long-lived, mostly idle calls: a thousand of them must cost almost nothing."""

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
    """Calls over a few connections, all on one event loop: threads would distort the measurement."""

    def __init__(self, server: ServerProcess) -> None:
        # Each has its own pool, because gRPC shares connections within a pool.
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
        """Open calls that get one answer each and then stay idle."""
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


def test_a_thousand_idle_calls_do_not_delay_writers(server: ServerProcess) -> None:
    async def run() -> int:
        async with Calls(server) as calls:
            await calls.idle(50, SMALL)  # the first calls load modules, which is not the cost of a call
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


def test_an_idle_call_releases_its_last_request(server: ServerProcess) -> None:
    batch = columns(id=[1], name=["x" * MEGABYTE])
    large = types.AppendRowsRequest.serialize(arrow_request(DEFAULT, batch))

    async def run() -> int:
        async with Calls(server) as calls:
            # The same number before: later calls reuse memory that the allocator has kept.
            await calls.idle(200, large)
            before = resident(server.pid)
            held = await calls.idle(200, large)
            assert len(held) == 200
            return resident(server.pid) - before

    assert asyncio.run(run()) < 100 * MEGABYTE
