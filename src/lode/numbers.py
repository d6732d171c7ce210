"""Numbers as text: digits, and optionally a sign, a point and an exponent."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

MAX_CHARACTERS: Final = 1000
# Possessive: a text that does not match is never tried again with other lengths.
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE]([+-]?[0-9]{1,9}))?")


def is_number(text: str) -> bool:
    """Return whether the text is a finite number."""
    return _NUMBER.fullmatch(text) is not None


def parse_number(text: str, *, max_exponent: int = 999_999_999) -> Decimal:
    """Read a number exactly.

    Args:
        text: The number, without space around it.
        max_exponent: The largest exponent, of either sign. A Decimal that becomes an integer or a fraction
            takes as many digits as its exponent.

    Raises:
        ValueError: The text is no number, too long, or has a larger exponent.
    """
    match = _NUMBER.fullmatch(text) if len(text) <= MAX_CHARACTERS else None
    if match is None or abs(int(match[1] or 0)) > max_exponent:
        raise ValueError("is no number")
    return Decimal(text)
