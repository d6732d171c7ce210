"""The command ``lode``. Each command is a file of its own; ``app.py`` puts them together."""

from lode.cli.app import main

__all__ = ["main"]
