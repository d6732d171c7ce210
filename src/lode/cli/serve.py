"""``lode serve``: the ingest server, which understands its own arguments."""

from __future__ import annotations

import os
from typing import Any, Final

import typer

PASSED_ON: Final[dict[str, Any]] = {
    "allow_extra_args": True,
    "ignore_unknown_options": True,
    "allow_interspersed_args": False,
}


def serve(context: typer.Context) -> None:
    """Run the ingest server; it has its own --help."""
    from lode.ingest.__main__ import main

    raise typer.Exit(main([*_root_from_environment(context.args), *context.args]))


def _root_from_environment(given: list[str]) -> list[str]:
    """The server has a --root of its own; LODE_ROOT stands for it here as it does everywhere."""
    root = os.environ.get("LODE_ROOT")
    said = any(word == "--root" or word.startswith("--root=") for word in given)
    return ["--root", root] if root and not said else []
