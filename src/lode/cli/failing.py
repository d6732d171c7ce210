"""How the long-running commands fail: the sentence names the command, and the exit code is 1."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from lode.cli.failure import FAILED
from lode.cli.printable import printable
from lode.errors import LodeError, MissingDependencyError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def failing_as(command: str, *, usage: bool = True) -> Iterator[None]:
    """Print an error of Lode as ``<command>: <sentence>`` and exit with code 1.

    Args:
        command: The command as it was called.
        usage: Whether that is so for wrong options too; else they keep exit code 2.
    """
    try:
        yield
    except LodeError as error:
        if isinstance(error, MissingDependencyError) or (isinstance(error, UsageError) and not usage):
            raise
        print(f"{command}: {printable(str(error))}", file=sys.stderr)
        raise typer.Exit(FAILED) from error
