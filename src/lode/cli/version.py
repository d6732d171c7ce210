"""``lode version``: the versions of Lode and of what it runs on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from lode import __version__
from lode.cli.parameters import JSON
from lode.cli.terminal import facts, print_json, print_lines
from lode.describe import versions

if TYPE_CHECKING:
    from collections.abc import Mapping


def version(json: bool = JSON) -> None:
    """Show the version of Lode, and of what it runs on."""
    if json:
        print_json(versions())
    else:
        print_versions(versions())


def print_versions(installed: Mapping[str, str | None]) -> None:
    print_lines(*facts((name, number or "not installed") for name, number in installed.items()))


def print_version(given: bool) -> None:
    """Print one line for ``lode --version`` and exit, before other options are checked."""
    if given:
        print(f"lode {__version__}")
        raise typer.Exit


def java() -> str | None:
    """The Java that Spark would start; None if there is none."""
    from lode.java import find

    found = find()
    return f"{found.version} ({found.executable})" if found else None
