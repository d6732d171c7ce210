"""``lode demo``: all features at once on this machine."""

from __future__ import annotations

from typing import Any, Final

import typer

from lode.cli.failure import failing_as
from lode.extras import needs

_KEEP: Final[Any] = typer.Option(False, "--keep", help="Leave the server running at the end.")


def demo(keep: bool = _KEEP) -> None:
    """Show streams, snapshots, Spark and a kill -9, on this machine alone."""
    with failing_as("lode demo"):
        with needs("lode demo", "server", "spark"):
            from lode.demo.run import run
        run(keep=keep)
