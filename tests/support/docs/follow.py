"""Follows a page from top to bottom, shell and Python in turn, as a reader does who copies and pastes.

``python tests/support/docs/follow.py PAGE`` runs it in this environment and in the current directory. A line
that serves is started and interrupted, as by Ctrl-C; one that ends with ``&`` serves until the page ends.
Servers take free ports, and the blocks below get their addresses instead of the usual ones.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from support.cli.page_driver import run_line
from support.docs.pages import Block, blocks_of

# Lines that install. Other tests do that.
INSTALLS: Final = ("python3 -m venv", "pip install", "./run ")
SERVES: Final = ("lode serve ", "lode ui")
_FREE_PORTS: Final = {"LODE_SERVE_PORT": "0", "LODE_SERVE_HTTP_PORT": "0", "LODE_UI_PORT": "0"}
_GRPC: Final = "127.0.0.1:9060"
_HTTP: Final = "127.0.0.1:9050"
_S3: Final = "http://127.0.0.1:9000"


def follow(page: Path) -> int:
    """Run the page and return how many times ``lode`` was called."""
    with ExitStack() as servers:
        return _Reader(servers).read(page)


class _Reader:
    def __init__(self, servers: ExitStack) -> None:
        self._servers = servers
        self._addresses: dict[str, str] = {}
        self._namespace: dict[str, Any] = {"__name__": "__page__"}

    def read(self, page: Path) -> int:
        calls = 0
        for block in blocks_of(page):
            if block.language == "python":
                Block(block.page, block.language, self._moved(block.text), block.line).run(self._namespace)
            elif block.language == "sh":
                calls += sum(map(self._line, block.text.splitlines()))
        return calls

    def _line(self, line: str) -> int:
        line = self._moved(line)
        if line.startswith(INSTALLS):
            return 0
        if line.startswith(SERVES):
            self._serve(line)
            return 1
        return run_line(line)

    def _serve(self, line: str) -> None:
        words = shlex.split(line, comments=True)
        if "--help" in words:
            run_line(line)
            return
        stays = words[-1] == "&"
        server = subprocess.Popen(
            words[: -1 if stays else None],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **_FREE_PORTS},
        )
        assert server.stdout is not None
        said = server.stdout.readline()
        assert said, f"{line}\nended with {server.wait()}"
        if not stays:
            _interrupt(server, line)
            return
        self._servers.callback(_interrupt, server, line)
        if said.startswith("{"):
            found = json.loads(said)
            self._addresses |= {_GRPC: found["grpc"], _HTTP: found["http"]}

    def _moved(self, text: str) -> str:
        if isinstance(endpoint := getattr(self._namespace.get("server"), "endpoint", None), str):
            text = text.replace(_S3, endpoint)
        for usual, address in self._addresses.items():
            text = text.replace(usual, address)
        return text


def _interrupt(server: subprocess.Popen[str], line: str) -> None:
    """End a server as Ctrl-C does."""
    server.send_signal(signal.SIGINT)
    try:
        code = server.wait(300)
    finally:
        server.kill()
        assert server.stdout is not None
        server.stdout.close()
    if code not in (0, 130):
        raise SystemExit(f"{line}\nended with {code}")


if __name__ == "__main__":
    print(follow(Path(sys.argv[1])))
