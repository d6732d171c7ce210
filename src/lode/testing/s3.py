"""moto's S3 server with its writes one at a time.

    python -m lode.testing.s3 PORT

moto compares an etag and stores the object in two steps, on many threads: two swaps of one object may both
win, which no real store allows. Here a write is one step.
"""

from __future__ import annotations

import sys
from threading import Lock
from typing import TYPE_CHECKING, Any

from lode.extras import needs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def one_write_at_a_time(app: Callable[..., Iterable[bytes]]) -> Callable[..., Iterable[bytes]]:
    """Wrap a WSGI application so that nothing else is written while a request writes."""
    writing = Lock()

    def serve(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] in ("GET", "HEAD"):
            return app(environ, start_response)
        with writing:
            return list(app(environ, start_response))

    return serve


def main(port: int) -> None:
    with needs("python -m lode.testing.s3", "testing"):
        from moto.moto_server.werkzeug_app import (
            DomainDispatcherApplication,
            MotoRequestHandler,
            create_backend_app,
        )
        from werkzeug.serving import run_simple

    app = one_write_at_a_time(DomainDispatcherApplication(create_backend_app))
    run_simple("127.0.0.1", port, app, threaded=True, request_handler=MotoRequestHandler)


if __name__ == "__main__":
    main(int(sys.argv[1]))
