"""``lode ui``: the console over a lake, which understands its own arguments."""

from __future__ import annotations

import typer


def ui(context: typer.Context) -> None:
    """Look at the lake in a browser; it has its own --help."""
    from lode.extras import needs

    with needs("lode ui", "server"):
        from lode.ui.__main__ import main
    raise typer.Exit(main(context.args))
