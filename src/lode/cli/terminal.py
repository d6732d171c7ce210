"""Output for people: text tables, facts and progress; coloured on a terminal, unless NO_COLOR is set."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from lode.format.manifest import json_text
from lode.units import size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rich.console import Console
    from rich.text import Text

FAINT: Final = "bright_black"
BYTES: Final = "bytes"
# Wide enough that nothing is cut off in a pipe.
_PIPE_WIDTH: Final = 100_000
# From this width on, whole ids leave room for the other columns.
_MIN_WIDTH_OF_WHOLE_IDS: Final = 120
_GAP: Final = 2
_MIN_COLUMN_WIDTH: Final = 8
_quiet = False


class TextTable:
    """Rows below headings, without borders. At most the last column is cut off, and only with ``cut``.

    Rich's tables narrow every column if there is too little room, and half a number is worse than none.

    Args:
        columns: The headings.
        right: The columns of numbers, which are aligned to the right.
        cut: Whether the last column ends at the edge of the terminal. Otherwise the terminal wraps it.
        max_width: The maximum width of a cell.
    """

    def __init__(
        self, *columns: str, right: Sequence[str] = (), cut: bool = False, max_width: int | None = None
    ) -> None:
        self._columns = [printable(column) for column in columns]
        self._right = [column in right for column in columns]
        self._cut = cut
        self._max_width = max_width
        self._rows: list[list[str | None]] = []

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, *cells: object) -> None:
        """Add a row; None is shown as null."""
        self._rows.append([None if cell is None else self._fitted(printable(str(cell))) for cell in cells])

    def columns_within(self, width: int) -> int:
        """Return how many columns fit into this width; at least one."""
        used = 0
        for number, needed in enumerate(self._widths()):
            used += needed + (_GAP if number else 0)
            if used > width and number:
                return number
        return len(self._columns)

    def lines(self, width: int, *, columns: int | None = None) -> Iterator[Text]:
        """Yield the styled lines of the table, or of its first ``columns``."""
        from rich.text import Text

        shown = len(self._columns) if columns is None else columns
        widths = self._widths()[:shown]
        room = max(width - sum(widths[:-1]) - _GAP * (shown - 1), _MIN_COLUMN_WIDTH)
        if self._cut and widths[-1] > room:
            widths[-1] = room
        if any(self._columns):
            yield self._line([Text(name, "bold") for name in self._columns], widths)
        for row in self._rows:
            yield self._line([Text("null", FAINT) if cell is None else Text(cell) for cell in row], widths)

    def _line(self, cells: list[Text], widths: list[int]) -> Text:
        from rich.text import Text

        line = Text()
        for number, (cell, width) in enumerate(zip(cells, widths, strict=False)):
            cell.truncate(width, overflow="ellipsis")
            cell.align("right" if self._right[number] else "left", width)
            line.append_text(cell).append(" " * _GAP)
        line.rstrip()
        return line

    def _widths(self) -> list[int]:
        from rich.cells import cell_len

        rows: list[Sequence[str | None]] = [self._columns, *self._rows]
        return [
            max(cell_len("null" if row[at] is None else str(row[at])) for row in rows)
            for at in range(len(self._columns))
        ]

    def _fitted(self, text: str) -> str:
        if self._max_width is None or len(text) <= self._max_width:
            return text
        return f"{text[: self._max_width - 1]}…"


def console() -> Console:
    """Return a console on stdout that prints text as it is: no markup, no emoji, no highlighting."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else _PIPE_WIDTH
    return Console(width=width, markup=False, emoji=False, highlight=False)


def print_lines(*things: TextTable | Text | str) -> None:
    """Print each thing to stdout on lines of its own; the terminal wraps lines that are too long."""
    out = console()
    for thing in things:
        for line in thing.lines(out.width) if isinstance(thing, TextTable) else (thing,):
            if out.is_terminal:
                out.print(line, soft_wrap=True)
            else:  # rich would end the program by itself when the reader of a pipe closes it
                print(line)


def print_json(value: Any) -> None:
    """Print one line of JSON to stdout."""
    print(json_text(value))


def facts(named: Iterable[tuple[str, object]]) -> list[Text]:
    """Return a line for each name and its value, with the values in one column."""
    from rich.text import Text

    known = [(name, printable(str(value))) for name, value in named]
    width = max(len(name) for name, _ in known)
    return [Text.assemble((f"{name:{width}}  ", FAINT), value) for name, value in known]


def printable(text: str) -> str:
    """Return the text on one line with control characters escaped, so that data cannot move the cursor."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text
    )


def short_id(id: str) -> str:
    """Return a snapshot's id; on a narrow terminal only its time, which commands accept as well."""
    if not sys.stdout.isatty() or console().width >= _MIN_WIDTH_OF_WHOLE_IDS:
        return id
    return id.partition("-")[0]


def brief(metadata: dict[str, Any]) -> str:
    """Return metadata in one line: ``source=crawler job=nightly``."""
    return " ".join(
        f"{name}={value if isinstance(value, str) else json_text(value)}" for name, value in metadata.items()
    )


def set_quiet(quiet: bool) -> bool:
    """Switch progress off for this process (``--quiet``)."""
    global _quiet
    _quiet = quiet
    return quiet


@contextmanager
def progress(what: str, unit: str) -> Iterator[Callable[[int, int | None], None]]:
    """Show progress on stderr if that is a terminal.

    Yields a function to call with (done, total); the total is None if it is not known.

    Args:
        what: The description, such as ``copying events``.
        unit: The unit of the count; ``bytes`` are shown as a size.
    """
    if _quiet or not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[counted]}", markup=False),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None, counted="")

        def advance(done: int, total: int | None) -> None:
            bar.update(task, completed=done, total=total, counted=counted(done, total, unit))

        yield advance


def counted(done: int, total: int | None, unit: str) -> str:
    """``3,000 rows``, ``3 of 12 files``, ``1.2 MB of 3.4 MB``."""
    if unit == BYTES:
        return size(done) if total is None else f"{size(done)} of {size(total)}"
    return f"{done:,} {unit}" if total is None else f"{done:,} of {total:,} {unit}"
