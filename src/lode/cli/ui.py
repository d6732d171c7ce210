"""``lode ui``: the console over a lake, which understands its own arguments."""

from __future__ import annotations

import typer


def ui(context: typer.Context) -> None:
    """Look at the lake in a browser; it has its own --help."""
    from lode.errors import MissingDependencyError

    try:
        from lode.ui.__main__ import main
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            f"lode ui needs {error.name}, which is not installed: pip install 'lode[server]'"
        ) from error
    raise typer.Exit(main(context.args))
