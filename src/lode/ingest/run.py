"""Run one server in this process until a signal stops it."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import sys
from typing import TYPE_CHECKING, Final

# Imported before the loop runs, so that a missing extra is reported in one sentence.
from lode.ingest.server import Server
from lode.log_lines import log_to

if TYPE_CHECKING:
    from lode.ingest.settings import Settings

_TURN_SECONDS: Final = 0.0005


def run(settings: Settings, *, log_level: str = "warning", as_json: bool = False) -> None:
    """Serve until SIGINT or SIGTERM; print the addresses to stdout."""
    # Python's own interval is 5 ms. The event loop would wait as long for each thread that decodes rows.
    sys.setswitchinterval(_TURN_SECONDS)
    log_to(level=log_level)
    asyncio.run(_serve(settings, as_json=as_json))


async def _serve(settings: Settings, *, as_json: bool) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    if settings.is_exposed:
        print(
            f"lode serve: other hosts can reach {settings.host}, and neither a token nor a client "
            "certificate is required: everyone may write. See --token-file and --client-ca.",
            file=sys.stderr,
        )
    server = Server(settings)
    await server.start()
    _announce(server, as_json=as_json)
    await stopping.wait()
    logging.getLogger("lode.ingest").info("stopping")
    await server.stop()


def _announce(server: Server, *, as_json: bool) -> None:
    if as_json or not sys.stdout.isatty():
        print(json.dumps({"grpc": server.grpc_address, "http": server.http_address}), flush=True)
    else:
        print(f"gRPC  {server.grpc_address}   the BigQuery Storage Write and Read APIs")
        print(f"HTTP  {server.http_address}   the console, REST v2, /metrics, /healthz", flush=True)
