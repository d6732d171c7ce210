"""The Node clients of BigQuery, installed on first use, and their scenarios."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, Final

from lode.testing.servers import find_node, install_node_packages, tools_directory

HERE: Final = Path(__file__).parent / "node"
_SECONDS: Final = 120.0


class NodeRun:
    """One scenario of a script in ``node/``, as a process."""

    def __init__(self, scenario: str, *arguments: str, script: str = "writer.mjs") -> None:
        command = [find_node(), str(HERE / script), str(_installed()), scenario, *arguments]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)

    def line(self) -> str:
        """Return the next printed line."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def result(self, text: str = "") -> Any:
        """Send ``text``, wait for the end, and return the client's results."""
        try:
            out, errors = self._process.communicate(text, timeout=_SECONDS)
        finally:
            self._process.kill()
        assert self._process.returncode == 0, f"{out}\n{errors}"
        return json.loads(out)


def run_node(scenario: str, *arguments: str, script: str = "writer.mjs") -> Any:
    """Run one scenario and return the client's results."""
    return NodeRun(scenario, *arguments, script=script).result()


def _installed() -> Path:
    """Return the directory of the packages. One process at a time installs them if they are missing."""
    return install_node_packages(HERE, tools_directory() / "bigquery-storage-node")
