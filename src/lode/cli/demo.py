"""``lode demo``: everything at once on this machine."""

from __future__ import annotations

import typer


def demo(context: typer.Context) -> None:
    """Show it all on this machine: streams, snapshots, Spark and a kill -9; --keep leaves it running."""
    from lode.demo.__main__ import main

    raise typer.Exit(main(context.args))
