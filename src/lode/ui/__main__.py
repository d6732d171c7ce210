"""``lode ui``: the console over a store, for this machine's own browser."""

from __future__ import annotations

import argparse
import os
import socket
import sys
import webbrowser
from typing import TYPE_CHECKING, Final

import uvicorn
from starlette.middleware import Middleware

from lode.cli.root import open_root
from lode.errors import InvalidOptionError, LodeError
from lode.http_guard import HttpGuard
from lode.ui.routes import PREFIX, application

if TYPE_CHECKING:
    from collections.abc import Sequence

HOST: Final = "127.0.0.1"
PORT: Final = 9070


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until interrupted; returns the exit code."""
    given = _parser().parse_args(arguments)
    try:
        if not given.root:
            raise InvalidOptionError("say where the datasets lie, with --root or LODE_ROOT")
        store = open_root(given.root, given.store_option)
        listening = _listen(given.port)
    except LodeError as error:
        print(f"lode ui: {error}", file=sys.stderr)
        return 2 if isinstance(error, InvalidOptionError) else 1
    app = application(store, middleware=[Middleware(HttpGuard)])
    address = f"http://{HOST}:{listening.getsockname()[1]}{PREFIX}/"
    print(address, flush=True)
    if given.open:
        webbrowser.open(address)
    config = uvicorn.Config(app, log_level="warning", access_log=False, lifespan="off")
    try:
        with listening:
            uvicorn.Server(config).run(sockets=[listening])
    except KeyboardInterrupt:
        return 130
    return 0


def _listen(port: int) -> socket.socket:
    # With its protocol: asyncio switches off Nagle's algorithm only on sockets that say they are TCP.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((HOST, port))
        listening.listen()
        return listening
    except (OSError, OverflowError) as error:
        listening.close()
        raise InvalidOptionError(
            f"cannot listen on {HOST}:{port} ({error}): choose another port with --port, 0 takes a free one"
        ) from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lode ui", description="Look at datasets and volumes in a browser.", allow_abbrev=False
    )
    option = parser.add_argument
    option(
        "--root",
        "-r",
        metavar="URL",
        default=os.environ.get("LODE_ROOT"),
        help="where the datasets lie: a directory, s3://…, gs://…, az://… (or LODE_ROOT)",
    )
    option(
        "--store-option",
        "-o",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="an option of the store",
    )
    option("--port", type=int, default=PORT, help="of the page, 0 for a free one (default: %(default)s)")
    option("--open", action="store_true", help="open it in the browser")
    return parser


if __name__ == "__main__":
    sys.exit(main())
