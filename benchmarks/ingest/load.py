"""What a client of the ingest server does, in a process of its own: appends, some of them in flight at once.

On the bare gRPC channel and on serialised requests, so that the server and not this is what is measured.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import Any, Final

import grpc.aio
import msgspec
from google.cloud.bigquery_storage_v1 import types

from benchmarks.ingest.requests import Requests

PROJECT: Final = "bench"
DATASET: Final = "ingest"
# The table of the first appends, which are not measured.
WARM_UP: Final = "warm_up"
# Where idle calls have sent their one append to.
IDLE: Final = "idle"

_SERVICE: Final = "/google.cloud.bigquery.storage.v1.BigQueryWrite"
_OPTIONS: Final = (
    ("grpc.max_send_message_length", 64 << 20),
    # Each channel is a connection of its own.
    ("grpc.use_local_subchannel_pool", 1),
)
_WARM_UP_APPENDS: Final = 4
_CALLS_PER_CHANNEL: Final = 100
# A server that has not answered by then does not answer.
_PATIENCE: Final = 60.0
IDLE_PATIENCE: Final = 10.0
# The raw protobuf class, whose types are made at run time.
_Response: Final[Any] = types.AppendRowsResponse.pb()


class Load(msgspec.Struct, frozen=True):
    """So many rows in appends of so many rows, on streams of one type."""

    form: str  # Arrow, Protobuf, or Upserts: Arrow with a type of change
    stream: str  # default, committed or pending
    rows: int  # of one append
    connections: int
    total: int
    in_flight: int = 8
    idle: int = 0
    patience: float = _PATIENCE  # seconds for an answer


class Outcome(msgspec.Struct, frozen=True):
    """Rows that were acknowledged (and, of pending streams, committed) and how long that took.

    ``held`` are the idle calls that got the answer to their first append; with fewer than asked for, nothing
    else was sent. ``cpu`` is what this client itself needed.
    """

    rows: int
    seconds: float
    p50_ms: float
    p99_ms: float
    cpu: float
    held: int = 0


def run_load(endpoint: str, table: str, load: dict[str, Any], warm_up: str = WARM_UP) -> dict[str, Any]:
    """In a child: put this load on the table, which exists and is empty, as do those to warm up."""
    plan = msgspec.convert(load, Load)
    return _builtin(asyncio.run(_run(endpoint, table, plan, warm_up)))


def _builtin(outcome: Outcome) -> dict[str, Any]:
    return dict(msgspec.to_builtins(outcome))


async def _run(endpoint: str, table: str, load: Load, warm_up: str) -> Outcome:
    channels = [grpc.aio.insecure_channel(endpoint, options=_OPTIONS) for _ in range(load.connections)]
    holder = Holder(endpoint)
    try:
        for channel in channels:
            await asyncio.wait_for(channel.channel_ready(), _PATIENCE)
        await _measure(channels, warm_up, load, appends=_WARM_UP_APPENDS)
        if await holder.hold(load.idle) < load.idle:
            return Outcome(0, 0, 0, 0, 0, holder.held)
        share = load.total // load.rows // load.connections
        return msgspec.structs.replace(await _measure(channels, table, load, appends=share), held=holder.held)
    finally:
        await holder.close()
        for channel in channels:
            await channel.close()


async def _measure(channels: list[grpc.aio.Channel], table: str, load: Load, appends: int) -> Outcome:
    calls = [await Call.open(channel, table, load, number) for number, channel in enumerate(channels)]
    began, cpu = time.monotonic(), time.process_time()
    await asyncio.gather(*(call.send(appends) for call in calls))
    if load.stream == "pending":
        await _commit(channels, calls, table)
    took, used = time.monotonic() - began, time.process_time() - cpu
    latencies = [latency * 1000 for call in calls for latency in call.latencies]
    slow = quantiles(latencies, n=100)[-1] if len(latencies) > 1 else latencies[0]
    return Outcome(len(latencies) * load.rows, took, median(latencies), slow, used)


@dataclass(slots=True)
class Call:
    """One open AppendRows call on a stream that only it writes."""

    channel: grpc.aio.Channel
    stream: str
    load: Load
    requests: Requests
    latencies: list[float] = field(default_factory=list)

    @classmethod
    async def open(cls, channel: grpc.aio.Channel, table: str, load: Load, number: int = 0) -> Call:
        parent = table_path(table)
        if load.stream == "default":
            stream = f"{parent}/streams/_default"
        else:
            kind = getattr(types.WriteStream.Type, load.stream.upper())
            wanted = types.CreateWriteStreamRequest(parent=parent, write_stream=types.WriteStream(type_=kind))
            stream = (await _call(channel, "CreateWriteStream", wanted, types.WriteStream)).name
        return cls(channel, stream, load, Requests(stream, load.form, load.rows, number))

    async def send(self, appends: int) -> None:
        """Send so many appends and wait for all answers."""
        call: Any = self.channel.stream_stream(f"{_SERVICE}/AppendRows")(metadata=_routing(self.stream))
        free = asyncio.Semaphore(self.load.in_flight)
        sent: list[float] = []

        async def write() -> None:
            for number in range(appends):
                await free.acquire()
                offset = None if self.load.stream == "default" else number * self.load.rows
                body = self.requests.at(number, offset)
                sent.append(time.monotonic())
                await call.write(body)
            await call.done_writing()

        writing = asyncio.create_task(write())
        try:
            while (answer := await asyncio.wait_for(call.read(), self.load.patience)) is not grpc.aio.EOF:
                _check(answer)
                self.latencies.append(time.monotonic() - sent[len(self.latencies)])
                free.release()
            await writing
        finally:
            writing.cancel()
            call.cancel()
        if len(self.latencies) != len(sent):
            raise RuntimeError(f"{len(sent)} appends were sent, {len(self.latencies)} answered")


class Holder:
    """Calls that have sent one append, got its answer, and stay open."""

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint
        self._channels: list[grpc.aio.Channel] = []
        self._calls: list[Any] = []

    @property
    def held(self) -> int:
        return len(self._calls)

    async def hold(self, count: int) -> int:
        """Open them, a channel's at a time, until some get no answer."""
        stream = f"{table_path(IDLE)}/streams/_default"
        body = Requests(stream, "Arrow", 1).at(0, None) if count else b""
        while self.held < count:
            channel = grpc.aio.insecure_channel(self._endpoint, options=_OPTIONS)
            self._channels.append(channel)
            wanted = min(_CALLS_PER_CHANNEL, count - self.held)
            opened = await asyncio.gather(*(_open_idle(channel, stream, body) for _ in range(wanted)))
            self._calls += [call for call in opened if call is not None]
            if None in opened:
                break
        return self.held

    async def close(self) -> None:
        for call in self._calls:
            call.cancel()
        for channel in self._channels:
            await channel.close()


async def _open_idle(channel: grpc.aio.Channel, stream: str, body: bytes) -> Any:
    call: Any = channel.stream_stream(f"{_SERVICE}/AppendRows")(metadata=_routing(stream))
    await call.write(body)
    try:
        _check(await asyncio.wait_for(call.read(), IDLE_PATIENCE))
    except TimeoutError:
        call.cancel()
        return None
    return call


async def _commit(channels: list[grpc.aio.Channel], calls: list[Call], table: str) -> None:
    """Finalize all streams, then commit them in one."""
    for channel, call in zip(channels, calls, strict=True):
        final = types.FinalizeWriteStreamRequest(name=call.stream)
        await _call(channel, "FinalizeWriteStream", final, types.FinalizeWriteStreamResponse)
    names = [call.stream for call in calls]
    batch = types.BatchCommitWriteStreamsRequest(parent=table_path(table), write_streams=names)
    done = await _call(channels[0], "BatchCommitWriteStreams", batch, types.BatchCommitWriteStreamsResponse)
    if done.stream_errors:
        raise RuntimeError(f"the commit failed: {done.stream_errors[0].error_message}")


async def _call(channel: grpc.aio.Channel, method: str, request: Any, answer: Any) -> Any:
    call: Any = channel.unary_unary(f"{_SERVICE}/{method}")
    body = await call(type(request).serialize(request), timeout=_PATIENCE)
    return answer.deserialize(body)


def _check(answer: bytes) -> None:
    response = _Response.FromString(answer)
    if response.WhichOneof("response") != "append_result":
        raise RuntimeError(f"an append failed: {response.error.message}")


def table_path(table: str) -> str:
    return f"projects/{PROJECT}/datasets/{DATASET}/tables/{table}"


def _routing(stream: str) -> tuple[tuple[str, str], ...]:
    return (("x-goog-request-params", f"write_stream={stream}"),)
