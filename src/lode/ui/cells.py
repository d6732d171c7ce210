"""Values as a page shows them: text, short, and the same whatever a browser makes of large numbers."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

from lode.format.manifest import json_text

LONGEST: Final = 300


def text_of(value: Any) -> str | None:
    """A value as text; None stays None, so that a null is not mistaken for a word."""
    match value:
        case None:
            return None
        case str():
            text = value
        case bool():
            text = "true" if value else "false"
        case int() | float() | Decimal():
            text = str(value)
        case bytes():
            text = f"0x{value[: LONGEST // 2].hex()}"
        case _:
            text = json_text(value).strip('"')
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def is_number(value: Any) -> bool:
    """Whether a value belongs at the right of its column."""
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)
