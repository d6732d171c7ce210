"""moto's S3 server with atomic writes: ``python -m lode.testing.s3 PORT``.

moto compares an etag and stores the object in two steps, on many threads. So two swaps of one object may both
succeed, which no real store allows. Here a lock makes each write one step.
"""

from __future__ import annotations

import argparse
from threading import Lock
from typing import TYPE_CHECKING, Any

from lode.extras import needs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def one_write_at_a_time(app: Callable[..., Iterable[bytes]]) -> Callable[..., Iterable[bytes]]:
    """Wrap a WSGI application so that requests that write run one after the other."""
    writing = Lock()

    def serve(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] in ("GET", "HEAD"):
            return app(environ, start_response)
        with writing:
            return list(app(environ, start_response))

    return serve


def main() -> None:
    """Serve until the process is interrupted."""
    parser = argparse.ArgumentParser(
        "python -m lode.testing.s3",
        description="Run moto's S3 server on 127.0.0.1, for tests. Objects are in memory.",
        epilog="lode.testing.servers.S3Server starts it on a free port, creates buckets, and has the options "
        "for lode.open_store.",
    )
    parser.add_argument("port", type=int, choices=range(65536), metavar="PORT", help="The port, up to 65535.")
    port = parser.parse_args().port
    with needs("python -m lode.testing.s3", "testing"):
        from moto.moto_server.werkzeug_app import MotoRequestHandler, create_backend_app
        from werkzeug.serving import run_simple

    # moto's own server looks through all its services for each request, which takes a third of the time.
    app = one_write_at_a_time(create_backend_app("s3"))
    run_simple("127.0.0.1", port, app, threaded=True, request_handler=MotoRequestHandler)


if __name__ == "__main__":
    main()
