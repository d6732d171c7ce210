"""What people see: tables and lines; in colour only on a terminal, unless NO_COLOR forbids it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from lode.cli.listing import FAINT, Listing
from lode.format.manifest import json_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console
    from rich.text import Text

# Nothing is cut off in a pipe, whatever its length.
_PIPE_WIDTH: Final = 100_000
# From this width on a whole id leaves room for the rest.
_WIDE: Final = 120


def console() -> Console:
    """A console on stdout that takes text as it is: no markup, no emoji, no guesses at what to colour."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else _PIPE_WIDTH
    return Console(width=width, markup=False, emoji=False, highlight=False)


def show(*things: Listing | Text | str) -> None:
    """Write to stdout, a line each; a line that is too long is the terminal's to wrap."""
    out = console()
    for thing in things:
        for line in thing.lines(out.width) if isinstance(thing, Listing) else (thing,):
            if out.is_terminal:
                out.print(line, soft_wrap=True)
            else:  # rich would end the program by itself when a pipe's reader goes away
                print(line)


def facts(pairs: Iterable[tuple[str, object]]) -> list[Text]:
    """Names and what they are, a line each."""
    from rich.text import Text

    from lode.cli.printable import printable

    known = [(name, printable(str(value))) for name, value in pairs]
    width = max(len(name) for name, _ in known)
    return [Text.assemble((f"{name:{width}}  ", FAINT), value) for name, value in known]


def short_id(id: str) -> str:
    """A snapshot's id; on a narrow terminal only its time, which is name enough."""
    if not sys.stdout.isatty() or console().width >= _WIDE:
        return id
    return id.partition("-")[0]


def as_json(value: Any) -> None:
    """Write one line of JSON to stdout."""
    print(json_text(value))


def brief(metadata: dict[str, Any]) -> str:
    """Metadata in one line: ``source=crawler job=nightly``."""
    return " ".join(f"{name}={_brief(value)}" for name, value in metadata.items())


def _brief(value: Any) -> str:
    return value if isinstance(value, str) else json_text(value)
