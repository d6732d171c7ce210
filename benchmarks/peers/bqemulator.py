"""An environment of its own for bqemulator, which needs an older DuckDB than the project's.

It is made when it is first asked for and kept.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

VERSION: Final = "1.4.0"
# The newest DuckDB that has its spatial extension, without which bqemulator does not start, as a package.
_DUCKDB: Final = "1.5.5"
_PACKAGES: Final = (
    f"bqemulator=={VERSION}",
    f"duckdb=={_DUCKDB}",
    f"duckdb-extension-spatial=={_DUCKDB}",
    "numpy>=2",
)
_TOOLS: Final = Path(__file__).parent.parent.parent / ".tools"
_HOME: Final = _TOOLS / "bqemulator"
_PYTHON: Final = _HOME / "env" / "bin" / "python"
_READY: Final = _HOME / f"ready-{VERSION}-{_DUCKDB}"
_SECONDS: Final = 600

_INSTALL_SPATIAL: Final = """
import pathlib, duckdb, duckdb_extension_spatial
folder = pathlib.Path(duckdb_extension_spatial.__file__).parent
duckdb.connect().execute(f"INSTALL '{next(folder.rglob('spatial.duckdb_extension'))}'")
"""


class UnavailableError(Exception):
    """It cannot be started on this machine, and why."""


def command(rest_port: int, grpc_port: int) -> list[str]:
    """The command that serves on these ports, with its data where it has it by default: in memory."""
    prepare()
    ports = ["--rest-port", str(rest_port), "--grpc-port", str(grpc_port)]
    return [str(_PYTHON), "-m", "bqemulator", "start", *ports, "--log-level", "error"]


def environment() -> dict[str, str]:
    """What it has to find in its environment: extensions of DuckDB are looked for in the home directory."""
    return {**os.environ, "HOME": str(_HOME), "BQEMU_ENABLE_FORMAT_EXTENSIONS": "false"}


def prepare() -> None:
    """Make the environment unless it is there."""
    if _READY.exists():
        return
    uv = shutil.which("uv") or str(_TOOLS / "bin" / "uv")
    if not Path(uv).exists():
        raise UnavailableError("its environment is made by uv, which is not on PATH; ./run installs it")
    shutil.rmtree(_HOME, ignore_errors=True)
    _HOME.mkdir(parents=True)
    uv_settings = {"UV_SYSTEM_CERTS": "true", **os.environ}
    _do([uv, "venv", "--quiet", "--python", sys.executable, str(_HOME / "env")], uv_settings)
    _do([uv, "pip", "install", "--quiet", "--python", str(_PYTHON), *_PACKAGES], uv_settings)
    _do([str(_PYTHON), "-c", _INSTALL_SPATIAL], environment())
    _READY.touch()


def _do(arguments: list[str], settings: dict[str, str]) -> None:
    try:
        done = subprocess.run(
            arguments,
            env=settings,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnavailableError(f"its environment could not be made: {error}") from error
    if done.returncode:
        raise UnavailableError(f"its environment could not be made: {done.stdout[-2000:].strip()}")
