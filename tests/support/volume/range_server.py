"""An HTTP server in a process of its own: serves one file in ranges, slowly, and drops some connections.

    python range_server.py FILE LOG

It prints its port and writes the ranges it was asked for to LOG. Every fifth connection is dropped before its
first byte and every third after half of what was asked for. While there is a file LOG.hold with a number,
requests after that many wait.
"""

from __future__ import annotations

import hashlib
import re
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path


def serve(content: bytes, log: Path) -> None:
    etag = f'"{hashlib.md5(content).hexdigest()}"'
    numbers = count(1)
    hold = log.with_name(f"{log.name}.hold")
    writing = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Accept-Ranges", "bytes")
            self.send_header("ETag", etag)
            self.end_headers()

        def do_GET(self) -> None:
            asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers["Range"])
            assert asked is not None
            assert self.headers["If-Match"] == etag
            start, end = int(asked[1]), int(asked[2]) + 1
            with writing, log.open("a") as lines:
                lines.write(f"{start} {end}\n")
            number = next(numbers)
            if number % 5 == 0:
                return
            time.sleep(0.02)
            while hold.exists() and number > int(hold.read_text()):
                time.sleep(0.02)
            self.send_response(206)
            self.send_header("Content-Length", str(end - start))
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(content)}")
            self.end_headers()
            self.wfile.write(content[start : start + (end - start) // (2 if number % 3 == 0 else 1)])

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the name is the server's
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        print(server.server_port, flush=True)
        server.serve_forever()


if __name__ == "__main__":
    serve(Path(sys.argv[1]).read_bytes(), Path(sys.argv[2]))
