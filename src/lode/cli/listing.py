"""A table without lines. Only the last column is ever cut off, and only where that was asked for.

Rich's own tables make every column narrower when room is short, and half a number is worse than none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lode.cli.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.text import Text

FAINT: Final = "bright_black"
_GAP: Final = 2
_LEAST: Final = 8


class Listing:
    """Rows under their headings.

    Args:
        columns: The headings.
        right: The columns of numbers, which are aligned to the right.
        cut: Whether the last column ends where the terminal does; else the terminal wraps it.
        widest: No cell is wider than this.
    """

    def __init__(
        self, *columns: str, right: Sequence[str] = (), cut: bool = False, widest: int | None = None
    ) -> None:
        self._columns = [printable(column) for column in columns]
        self._right = [column in right for column in columns]
        self._cut = cut
        self._widest = widest
        self._rows: list[list[str | None]] = []

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, *cells: object) -> None:
        """Add a row; None is shown as null."""
        self._rows.append([None if cell is None else self._fitted(printable(str(cell))) for cell in cells])

    def fitting(self, width: int) -> int:
        """How many columns there is room for; at least one."""
        used = 0
        for number, needed in enumerate(self._widths()):
            used += needed + (_GAP if number else 0)
            if used > width and number:
                return number
        return len(self._columns)

    def lines(self, width: int, *, columns: int | None = None) -> Iterator[Text]:
        """The table, a line each, in a style that suits a terminal."""
        from rich.text import Text

        shown = len(self._columns) if columns is None else columns
        widths = self._widths()[:shown]
        room = max(width - sum(widths[:-1]) - _GAP * (shown - 1), _LEAST)
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

        return [
            max(
                [
                    cell_len(name),
                    *(cell_len("null" if row[at] is None else str(row[at])) for row in self._rows),
                ]
            )
            for at, name in enumerate(self._columns)
        ]

    def _fitted(self, text: str) -> str:
        if self._widest is None or len(text) <= self._widest:
            return text
        return f"{text[: self._widest - 1]}…"
