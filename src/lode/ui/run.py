"""Run the console over one store in this process."""

from __future__ import annotations

import socket
import webbrowser
from typing import TYPE_CHECKING

import uvicorn
from starlette.middleware import Middleware

from lode.errors import InvalidOptionError
from lode.http_framing import StrictHttp
from lode.http_guard import HttpGuard
from lode.log_lines import log_to
from lode.ui.routes import PREFIX, application
from lode.ui_settings import HOST

if TYPE_CHECKING:
    from lode.store.protocol import Store
    from lode.ui_settings import UiSettings


def run(store: Store, settings: UiSettings) -> None:
    """Print the address of the page, then serve it until SIGINT or SIGTERM."""
    listening = _listen(settings.port)
    app = application(store, middleware=[Middleware(HttpGuard)])
    address = f"http://{HOST}:{listening.getsockname()[1]}{PREFIX}/"
    print(address, flush=True)
    if settings.open:
        webbrowser.open(address)
    log_to()
    config = uvicorn.Config(
        app, http=StrictHttp, ws="none", log_config=None, access_log=False, lifespan="off"
    )
    with listening:
        uvicorn.Server(config).run(sockets=[listening])


def _listen(port: int) -> socket.socket:
    # With the protocol: asyncio disables Nagle's algorithm only on sockets created with IPPROTO_TCP.
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
