"""A way to a server on this machine that takes as long as the way to one elsewhere."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from lode.testing.servers import end_process

if TYPE_CHECKING:
    from collections.abc import Iterator

# Seconds that an answer takes longer.
DISTANCE: Final = 0.03
_CHUNK: Final = 1 << 16


@contextmanager
def far(port: int) -> Iterator[int]:
    """A port that passes on to this one, and whose answers take as long as those of a store elsewhere."""
    command = [sys.executable, "-m", "benchmarks.distance", str(port), str(DISTANCE)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        listens = process.stdout.readline()
        if not listens:
            raise RuntimeError("the relay to the store did not start")
        yield int(listens)
    finally:
        end_process(process, patience=5)


async def relay(port: int, seconds: float) -> None:
    """Pass on what comes to a free port to this one; each answer is on its way for so many seconds.

    Nothing is computed meanwhile, so that many requests can be on their way on a machine with few cores.
    """

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(_pass(reader, back, 0.0), _pass(there, writer, seconds))

    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=1000)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seconds: float) -> None:
    try:
        while data := await reader.read(_CHUNK):
            if seconds:
                await asyncio.sleep(seconds)
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


if __name__ == "__main__":
    asyncio.run(relay(int(sys.argv[1]), float(sys.argv[2])))
