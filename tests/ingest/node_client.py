"""The Node client of the Storage Write API, installed on first use as Azurite is, and run by scenarios."""

from __future__ import annotations

import fcntl
import hashlib
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

from lode.testing.servers import find_node, run_npm, tools_directory

HERE: Final = Path(__file__).parent / "node"
# What npm needs to install the same packages everywhere.
_PACKAGES: Final = ("package.json", "package-lock.json")
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
    folder = tools_directory() / "bigquery-storage-node"
    folder.mkdir(parents=True, exist_ok=True)
    wanted = hashlib.sha256(b"".join((HERE / name).read_bytes() for name in _PACKAGES)).hexdigest()
    done = folder / "installed"
    with (folder / "install.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if done.exists() and done.read_text() == wanted:
            return folder
        for name in _PACKAGES:
            shutil.copyfile(HERE / name, folder / name)
        run_npm("ci", "--prefix", str(folder), "--ignore-scripts", "--no-fund", "--no-audit")
        done.write_text(wanted)
    return folder
