"""Partial responses: the parameter ``fields`` names the parts of an answer that a client wants.

``kind,tables(id,tableReference/tableId)`` keeps ``kind``, and of each table its id and its short name. ``*``
stands for every part of a level. A part that is not there is left out.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from lode.ingest.status import invalid

if TYPE_CHECKING:
    from typing import TypeAlias

    from lode.ingest.status import Refused

    # Each part with the parts of it that are wanted; an empty mask wants all of it.
    Mask: TypeAlias = "dict[str, Mask]"

MAX_CHARS: Final = 8_192
MAX_DEPTH: Final = 20
_TOKEN: Final = re.compile(r"[A-Za-z0-9_$.*-]+|[,()/]")


def parse_fields(text: str) -> Mask:
    """Read a mask, or refuse it, in time linear in the text; an empty one wants everything."""
    if len(text) > MAX_CHARS:
        raise invalid(
            f"Invalid value for fields: it has {len(text):,} characters, the most is {MAX_CHARS:,}."
        )
    whole: Mask = {}
    levels = [whole]  # the mask inside each open parenthesis
    inside, depth = whole, 1
    named: Mask | None = None  # what was named right before
    wants_name, at = bool(text), 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        mark = token[0] if token else ""
        if mark in ("/", "("):
            if named is None or depth == MAX_DEPTH:
                raise _refused(text, at)
            inside, named, wants_name, depth = named, None, True, depth + 1
            if mark == "(":
                levels.append(inside)
        elif mark in (",", ")"):
            if wants_name or (mark == ")" and len(levels) == 1):
                raise _refused(text, at)
            if mark == ")":
                levels.pop()
            inside, named, wants_name, depth = levels[-1], None, mark == ",", len(levels)
        else:
            if not mark or not wants_name:
                raise _refused(text, at)
            named, wants_name = inside.setdefault(mark, {}), False
        at += len(mark)
    if wants_name or len(levels) > 1:
        raise _refused(text, at)
    return whole


def masked(value: Any, mask: Mask) -> Any:
    """The parts of a JSON value that the mask wants."""
    if not mask or not isinstance(value, dict | list):
        return value
    if isinstance(value, list):
        return [masked(item, mask) for item in value]
    every = mask.get("*")
    return {
        key: masked(item, mask.get(key, every or {}))
        for key, item in value.items()
        if key in mask or every is not None
    }


def _refused(text: str, at: int) -> Refused:
    found = f"{text[at : at + 20]!r} at character {at} is not expected" if text[at:] else "it ends too early"
    return invalid(f"Invalid value for fields: {found}, write it like a,b/c,d(e,f).")
