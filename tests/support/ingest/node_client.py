"""The Node client of the Storage Write API, installed on first use as Azurite is, and run by scenarios."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, Final

from lode.testing.servers import find_node, install_node_packages, tools_directory

HERE: Final = Path(__file__).parent / "node"
_SECONDS: Final = 120.0


class NodeRun:
    """One scenario of ``node/writer.mjs``, as a process."""

    def __init__(self, scenario: str, *arguments: str) -> None:
        command = [find_node(), str(HERE / "writer.mjs"), str(_installed()), scenario, *arguments]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)

    def line(self) -> str:
        """The next line it prints."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def told(self, text: str = "") -> Any:
        """What the client was told, after it has read ``text`` and ended."""
        try:
            out, errors = self._process.communicate(text, timeout=_SECONDS)
        finally:
            self._process.kill()
        assert self._process.returncode == 0, f"{out}\n{errors}"
        return json.loads(out)


def run_node(scenario: str, *arguments: str) -> Any:
    """What the client was told in one scenario."""
    return NodeRun(scenario, *arguments).told()


def _installed() -> Path:
    """The directory of the packages, installed if they are not there; one process at a time."""
    return install_node_packages(HERE, tools_directory() / "bigquery-storage-node")
