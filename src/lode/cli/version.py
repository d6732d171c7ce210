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
    """The Java that Spark would start; None if there is none."""
    from lode.java import find

    found = find()
    return f"{found.version} ({found.executable})" if found else None


def _version_of(package: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None
