"""From an error to one sentence on stderr and an exit code."""

from __future__ import annotations

import sys
import traceback
from typing import Final

from lode.cli.printable import printable
from lode.errors import (
    CommitError,
    LodeError,
    MissingDependencyError,
    MissingError,
    UsageError,
)

FAILED: Final = 1
USAGE: Final = 2
NOT_FOUND: Final = 3
CONFLICT: Final = 4
PROBLEMS: Final = 5
PERHAPS_LANDED: Final = 6

_HELP: Final = "Usage:"


def report(error: Exception, *, debug: bool) -> int:
    """Say what went wrong and return the exit code; where it went wrong only to those who ask."""
    if debug:
        traceback.print_exception(error)
    said = sentence(error)
    # Only help has several lines, for those who gave no command at all.
    print(said if said.startswith(_HELP) else f"lode: {printable(said)}", file=sys.stderr)
    return exit_code(error)


def exit_code(error: Exception) -> int:
    match error:
        case MissingDependencyError():
            return FAILED  # the call is right, the machine is not ready for it
        case UsageError():
            return USAGE
        case MissingError() | FileNotFoundError():
            return NOT_FOUND
        case CommitError():
            return CONFLICT if error.landed is False else PERHAPS_LANDED
        case LodeError() | OSError():
            return FAILED
    # typer keeps the class of its usage errors to itself, but they know their code.
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
