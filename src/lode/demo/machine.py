"""The server of the demo: a process of its own, so that it can be killed like one."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from lode.errors import LodeError

if TYPE_CHECKING:
    from pathlib import Path


class DemoFailed(LodeError):  # noqa: N818
    """The demo saw something other than it promises."""


class ServerProcess:
    """``lode serve`` over a lake, on free ports of loopback at first and the same ones ever after."""

    def __init__(self, lake: Path) -> None:
        self._lake = lake
        self.grpc = self.http = "127.0.0.1:0"
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        ports = ["--port", self.grpc.rpartition(":")[2], "--http-port", self.http.rpartition(":")[2]]
        command = [
            sys.executable,
            "-m",
            "lode.ingest",
            "--root",
            str(self._lake),
            *ports,
            "--compact",
            "--json",
        ]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise DemoFailed(f"the server ended with exit code {self._process.wait()}")
        addresses: dict[str, Any] = json.loads(line)
        self.grpc, self.http = addresses["grpc"], addresses["http"]

    def kill(self) -> None:
        """SIGKILL: it has no chance to tidy up."""
        assert self._process is not None
        self._process.kill()
        self._ended()

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._ended()

    def _ended(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        self._process.wait(30)
        self._process.stdout.close()
