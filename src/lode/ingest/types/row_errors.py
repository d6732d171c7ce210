"""Errors in the rows of a request: found in whole columns, reported row by row."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from lode.ingest.status import RowProblem, bad_rows
from lode.lazy import pa, pc

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lode.ingest.status import Refused

_MAX_SHOWN_CHARACTERS: Final = 60
# A response has room for about this many, and each takes memory and time.
MAX_BAD_ROWS: Final = 10_000


class Problems:
    """The bad rows so far, each with the first error that was found.

    The refusal is raised at ``MAX_BAD_ROWS``; further rows are not checked.
    """

    def __init__(self) -> None:
        self._messages: dict[int, str] = {}

    def add(self, row: int, message: str) -> None:
        self._messages.setdefault(row, message)
        if len(self._messages) >= MAX_BAD_ROWS:
            raise self.refusal()

    def __bool__(self) -> bool:
        return bool(self._messages)

    def refusal(self) -> Refused:
        """The refusal that names the bad rows, in order."""
        return bad_rows(
            [RowProblem(row, self._messages[row]) for row in sorted(self._messages)],
            all_known=len(self._messages) < MAX_BAD_ROWS,
        )


class Origin:
    """The origin of an array in a request: its column, and the rows of its values."""

    def __init__(
        self, problems: Problems, path: str, outer: Origin | None = None, lists: pa.Array[Any] | None = None
    ) -> None:
        self.path = path
        self._problems = problems
        self._outer = outer
        self._lists = lists

    def child(self, name: str) -> Origin:
        """The origin of a struct's field, in the same rows."""
        return Origin(self._problems, f"{self.path}.{name}", self)

    def within(self, lists: pa.Array[Any]) -> Origin:
        """The origin of the flattened elements of lists. No list may be null."""
        return Origin(self._problems, self.path, self, lists)

    def report(self, indices: Iterable[int], message: str | Callable[[int], str]) -> None:
        """Record that the values at these indices are bad, with one message for all, or one for each."""
        found = list(islice(indices, MAX_BAD_ROWS))
        for row, index in zip(self._rows(found), found, strict=True):
            text = message if isinstance(message, str) else message(index)
            self._problems.add(row, f"Column {self.path!r}: {text}")

    def report_where(self, mask: pa.Array[Any], message: str | Callable[[int], str]) -> None:
        """Record that the values where the mask is true are bad."""
        indices: Any = pc.indices_nonzero(mask)
        self.report(indices.slice(0, MAX_BAD_ROWS).to_pylist(), message)

    def _rows(self, indices: list[int]) -> list[int]:
        if self._lists is not None:
            parents: Any = pc.list_parent_indices(self._lists)
            indices = [parents[index].as_py() for index in indices]
        return indices if self._outer is None else self._outer._rows(indices)


def failing(array: pa.Array[Any], attempt: Callable[[pa.Array[Any]], object]) -> list[int]:
    """The indices of the values for which the attempt raises, found by halving.

    At most ``MAX_BAD_ROWS``: reporting so many ends the request. An array without values has none.
    """
    found: list[int] = []
    pending = [(0, len(array))] if len(array) else []
    while pending and len(found) < MAX_BAD_ROWS:
        start, stop = pending.pop()
        try:
            attempt(array.slice(start, stop - start))
        except pa.ArrowException:
            if stop - start == 1:
                found.append(start)
            else:
                middle = (start + stop) // 2
                pending += [(middle, stop), (start, middle)]
    return sorted(found)


def shown(array: pa.Array[Any], index: int) -> str:
    """A value for a message, shortened."""
    try:
        text = repr(array[index].as_py())
    # Python lacks some values that Arrow has: years after 9999, unknown zones, decimals out of range.
    except Exception:
        text = "the value"
    return text if len(text) <= _MAX_SHOWN_CHARACTERS else text[:_MAX_SHOWN_CHARACTERS] + "…"


def each(array: pa.Array[Any], origin: Origin, convert: Callable[[Any], Any]) -> list[Any]:
    """Convert each value. A ``ValueError`` is reported after the value, which becomes None."""
    converted: list[Any] = []
    bad: dict[int, str] = {}
    for index, value in enumerate(array.to_pylist()):
        try:
            converted.append(None if value is None else convert(value))
        except ValueError as why:
            bad[index] = str(why)
            converted.append(None)
    if bad:
        origin.report(bad, lambda index: f"{shown(array, index)} {bad[index]}.")
    return converted
