"""``lode serve``: run the ingest server until it gets a signal to stop."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lode.cli.pairs import store_options
from lode.errors import LodeError
from lode.extras import needs
from lode.ingest.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lode.ingest.server import Server


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve; returns the exit code."""
    given = vars(_parser().parse_args(arguments))
    as_json = given.pop("json")
    logging.basicConfig(
        level=logging.getLevelName(given.pop("log_level").upper()),
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    try:
        options = store_options(given.pop("store_option"))
        hosts = tuple(given.pop("allow_host"))
        settings = Settings(**given, store_options=options, allow_hosts=hosts)
        asyncio.run(_serve(settings, as_json=as_json))
    except LodeError as error:
        print(f"lode serve: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


async def _serve(settings: Settings, *, as_json: bool) -> None:
    with needs("the server", "server"):
        from lode.ingest.server import Server  # heavy: only once the options are known to be right

    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    if settings.is_exposed:
        print(
            f"lode serve: {settings.host} can be reached by others, and neither a token nor a client "
            "certificate is asked for: anybody may write. See --token-file and --client-ca.",
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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lode serve", description="BigQuery's Storage Write API onto snapshots.", allow_abbrev=False
    )
    option = parser.add_argument
    option("--root", required=True, metavar="URL", help="the lake: a directory, s3://…, gs://…, az://…")
    option(
        "--store-option",
        "-o",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="an option of the lake's store, such as endpoint=http://127.0.0.1:9000; several are fine",
    )
    option("--state", type=Path, metavar="DIR", help="where write streams survive (default: in a local lake)")
    option("--host", default="127.0.0.1", help="the address to listen on (default: %(default)s)")
    option("--port", type=int, default=9060, help="of gRPC, 0 for a free one (default: %(default)s)")
    option("--http-port", type=int, default=9050, help="of REST, metrics, health (default: %(default)s)")
    option("--tls-cert", type=Path, metavar="FILE", help="certificate chain, PEM")
    option("--tls-key", type=Path, metavar="FILE", help="its private key, PEM")
    option("--client-ca", type=Path, metavar="FILE", help="ask clients for a certificate of this authority")
    option("--token-file", type=Path, metavar="FILE", help="ask clients for one of these bearer tokens")
    option(
        "--allow-host",
        metavar="NAME",
        action="append",
        default=[],
        help="answer HTTP requests to this name too, such as that of a proxy; several are fine",
    )
    option("--location", default="US", help="of datasets that name none (default: %(default)s)")
    option("--request-bytes", type=int, default=20 << 20, metavar="N", help="the largest append request")
    option("--window-bytes", type=int, default=96 << 20, metavar="N", help="requests in memory, all together")
    option("--staged-bytes", type=int, default=64 << 30, metavar="N", help="staged on disk, all together")
    option("--streams", type=int, default=10_000, metavar="N", help="write streams open at once")
    option("--stream-ttl", type=float, default=259_200.0, metavar="SECONDS", help="of a stream nobody uses")
    option("--grace", type=float, default=10.0, metavar="SECONDS", help="for calls under way when it stops")
    option("--json", action="store_true", help="print the addresses as one line of JSON")
    levels = ("debug", "info", "warning", "error")
    option("--log-level", default="warning", choices=levels, help="what is logged (default: %(default)s)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
