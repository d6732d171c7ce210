"""A way to a server on this machine that takes as long as the way to one elsewhere."""

from __future__ import annotations

import asyncio
import sys
from typing import Final

_CHUNK: Final = 1 << 16


async def relay(listen: int, port: int, seconds: float) -> None:
    """Pass on what comes on a port to another one; each answer is on its way for so many seconds.

    Nothing is computed meanwhile, so that many requests can be on their way on a machine with few cores.
    """

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(_pass(reader, back, 0.0), _pass(there, writer, seconds))

    server = await asyncio.start_server(serve, "127.0.0.1", listen)
    print("ready", flush=True)
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
    asyncio.run(relay(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
