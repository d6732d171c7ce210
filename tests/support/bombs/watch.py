"""A process beside a server that asks for its health, inserts rows and measures memory.

It is a process of its own, so that making and sending bombs does not delay its clock. Probes begin at fixed
times, whether the earlier ones are answered or not: a server that stands still for some seconds delays many.
What counts is the time that two in a row have reached, as one alone may be the machine's fault.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import sys
import time
from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import grpc.aio

from support.bombs import proc

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

HEALTH_EVERY: Final = 0.2
INSERT_EVERY: Final = 0.5
MEMORY_EVERY: Final = 0.05
_APPEND_ROWS: Final = "/google.cloud.bigquery.storage.v1.BigQueryWrite/AppendRows"
# A probe that is not answered until then counts as this long.
PATIENCE: Final = 15.0


class Watch:
    """Probes of one server between ``begin`` and ``end``."""

    def __init__(
        self,
        pid: int,
        address: str,
        table: str,
        guard_bytes: int,
        append_to: tuple[str, bytes] | None = None,
    ) -> None:
        self._pid = pid
        self._host, _, port = address.rpartition(":")
        self._port = int(port)
        self._path = table
        self._guard_bytes = guard_bytes
        self._append_to = append_to
        self._channel = None if append_to is None else grpc.aio.insecure_channel(append_to[0])
        self._tasks: list[asyncio.Task[None]] = []
        self._probes: set[asyncio.Task[None]] = set()

    def begin(self) -> None:
        self._health: list[float] = []
        self._insert: list[float] = []
        self._append: list[float] = []
        self._refused: list[str] = []
        self._lag = 0.0
        self._killed = False
        self._peaks = proc.Memory(0, 0, 0, 0)
        self._tree = 0
        proc.forget_peak(self._pid)
        self._tasks = [
            asyncio.create_task(self._every(HEALTH_EVERY, self._check_health, self._health)),
            asyncio.create_task(self._every(INSERT_EVERY, self._check_insert, self._insert)),
            asyncio.create_task(self._sample()),
        ]
        if self._channel is not None:
            self._tasks.append(
                asyncio.create_task(self._every(INSERT_EVERY, self._check_append, self._append))
            )

    async def end(self) -> dict[str, Any]:
        for task in self._tasks:
            task.cancel()
        if self._probes:
            await asyncio.wait(self._probes)
        return {
            "health": _second(self._health),
            "insert": _second(self._insert),
            **({"append": _second(self._append)} if self._append_to else {}),
            "probes": len(self._health),
            "inserts": len(self._insert),
            "refused": self._refused[:3],
            "lag": round(self._lag, 2),
            "own": max(self._peaks.own, proc.peak(self._pid)),
            "children": self._peaks.children,
            "largest": self._peaks.largest,
            "count": self._peaks.processes,
            "tree": self._tree,
            "killed": self._killed,
        }

    async def _every(self, seconds: float, probe: Callable[[], Awaitable[None]], into: list[float]) -> None:
        due = time.monotonic()
        while True:
            into.append(PATIENCE)
            task = asyncio.create_task(self._timed(probe, into, len(into) - 1))
            self._probes.add(task)
            task.add_done_callback(self._probes.discard)
            due += seconds
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            # How late this process itself is.
            self._lag = max(self._lag, time.monotonic() - due)

    async def _timed(self, probe: Callable[[], Awaitable[None]], into: list[float], index: int) -> None:
        began = time.monotonic()
        try:
            await asyncio.wait_for(probe(), PATIENCE)
        except (OSError, TimeoutError, ValueError, asyncio.IncompleteReadError) as error:
            self._refused.append(f"{type(error).__name__} {error}"[:200])
            return
        into[index] = round(time.monotonic() - began, 3)

    async def _check_health(self) -> None:
        await self._call("GET", "/healthz", b"")

    async def _check_insert(self) -> None:
        body = json.dumps({"rows": [{"json": {"id": 1, "name": "probe"}}]}).encode()
        await self._call("POST", f"{self._path}/insertAll", body)

    async def _check_append(self) -> None:
        """One row on the default stream, on a call of its own."""
        assert self._channel is not None
        assert self._append_to is not None
        call: Any = self._channel.stream_stream(_APPEND_ROWS)()
        try:
            await call.write(self._append_to[1])
            answer = await call.read()
            if not isinstance(answer, bytes):
                raise ValueError("the call ended without an answer")
        except grpc.aio.AioRpcError as error:
            raise ValueError(f"{error.code()} {error.details()}") from None
        finally:
            call.cancel()

    async def _call(self, verb: str, path: str, body: bytes) -> None:
        reader, writer = await asyncio.open_connection(self._host, self._port)
        try:
            head = (
                f"{verb} {path} HTTP/1.1\r\nHost: {self._host}:{self._port}\r\nConnection: close\r\n"
                f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            )
            writer.write(head.encode() + body)
            answer = await reader.read()
            if b" 200 " not in answer.split(b"\r\n", 1)[0] or b"insertErrors" in answer:
                raise ValueError(answer[:150].decode("utf-8", "replace"))
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def _sample(self) -> None:
        while True:
            now = proc.measure(self._pid)
            self._peaks = proc.Memory(*map(max, zip(self._peaks, now, strict=True)))
            self._tree = max(self._tree, now.own + now.children)
            if now.own + now.children > self._guard_bytes:
                self._killed = True
                with suppress(OSError):
                    os.killpg(self._pid, signal.SIGKILL)
            await asyncio.sleep(MEMORY_EVERY)


def _second(values: list[float]) -> float:
    """The largest value that two probes in a row have reached."""
    return max((min(pair) for pair in pairwise(values)), default=max(values, default=0.0))


async def _main(pid: str, address: str, table: str, guard: str, *append_to: str) -> None:
    append = (append_to[0], base64.b64decode(append_to[1])) if append_to else None
    watch = Watch(int(pid), address, table, int(guard), append)
    loop = asyncio.get_running_loop()
    while command := (await loop.run_in_executor(None, sys.stdin.readline)).strip():
        if command == "begin":
            watch.begin()
            answer: dict[str, Any] = {}
        else:
            answer = await watch.end()
        print(json.dumps(answer), flush=True)
    # The tests were ended: the server is in a session of its own, and would stay.
    with suppress(OSError):
        os.killpg(int(pid), signal.SIGKILL)


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
