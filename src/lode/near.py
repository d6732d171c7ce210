"""Names that a user may have meant, for errors about a name that does not exist."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# A name is compared with this many at most. Errors must not take long.
MAX_NAMES: Final = 1_000
_SUGGESTED: Final = 3
_SHOWN: Final = 50
_ALIKE: Final = 0.6
# Comparing takes the square of the length.
_MAX_LENGTH: Final = 64


def near(name: str, known: Iterable[str], *, most: int = _SUGGESTED) -> list[str]:
    """The known names most like ``name``, in any case, best first; an empty list if none is alike."""
    from difflib import get_close_matches

    wanted = name[:_MAX_LENGTH].casefold()
    by_folded: dict[str, str] = {}
    for each in islice(known, MAX_NAMES):
        by_folded.setdefault(each[:_MAX_LENGTH].casefold(), each)
    return [by_folded[found] for found in get_close_matches(wanted, by_folded, most, _ALIKE)]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The question ``did you mean 'a' or 'b'?``; an empty string if no known name is alike."""
    return question(near(name, known))


def question(names: list[str]) -> str:
    """Ask whether one of these names was meant; an empty string for none."""
    if not names:
        return ""
    *rest, last = map(repr, names)
    return f"did you mean {', '.join(rest)} or {last}?" if rest else f"did you mean {last}?"


def column_hint(name: str, columns: Sequence[str]) -> str:
    """The columns that may be meant, or all there are."""
    shown = ", ".join(columns[:_SHOWN]) + (f" and {len(columns) - _SHOWN:,} more" if columns[_SHOWN:] else "")
    return did_you_mean(name, columns) or (f"it has {shown}" if shown else "it has none")
