"""Text that is safe on a terminal: data may hold control characters, and nobody's data moves the cursor."""

from __future__ import annotations


def printable(text: str) -> str:
    """Return the text on one line, with what cannot be printed escaped."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
