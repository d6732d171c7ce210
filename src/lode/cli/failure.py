"""Errors as one sentence on stderr and an exit code."""

from __future__ import annotations

import sys
import traceback
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import typer

from lode.cli.terminal import printable
from lode.errors import CommitError, LodeError, MissingDependencyError, MissingError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

FAILED: Final = 1
USAGE: Final = 2
NOT_FOUND: Final = 3
CONFLICT: Final = 4
PROBLEMS: Final = 5
UNKNOWN_OUTCOME: Final = 6

_HELP: Final = "Usage:"


@contextmanager
def failing_as(command: str) -> Iterator[None]:
    """Print an error of a long-running command as ``<command>: <sentence>`` and exit with code 1."""
    try:
        yield
    except MissingDependencyError:
        raise
    except LodeError as error:
        print(f"{command}: {printable(str(error))}", file=sys.stderr)
        raise typer.Exit(FAILED) from error


def report(error: Exception, *, debug: bool) -> int:
    """Print the error to stderr, with its traceback if ``debug``, and return the exit code."""
    if debug:
        traceback.print_exception(error)
    text = sentence(error)
    # Only the help for a call without a command has several lines.
    print(text if text.startswith(_HELP) else f"lode: {printable(text)}", file=sys.stderr)
    return exit_code(error)


def exit_code(error: Exception) -> int:
    match error:
        case MissingDependencyError():
            return FAILED  # the call is right, but the machine lacks a package
        case UsageError():
            return USAGE
        case MissingError() | FileNotFoundError():
            return NOT_FOUND
        case CommitError():
            return CONFLICT if error.landed is False else UNKNOWN_OUTCOME
        case LodeError() | OSError():
            return FAILED
    # The class of typer's usage errors is private, but they have an exit code.
    code = getattr(error, "exit_code", FAILED)
    return code if isinstance(code, int) else FAILED


def sentence(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None and error.strerror is not None:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, LodeError):
        return str(error)
    if hasattr(error, "format_message"):
        message = str(error.format_message())
        context = getattr(error, "ctx", None)
        if context is None or message.startswith(_HELP):
            return message
        if message.endswith("?"):
            return f"{message} See {context.command_path} --help"
        return f"{message.rstrip('.')}: see {context.command_path} --help"
    first_line = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {first_line}"
