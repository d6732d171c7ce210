"""The bombs of the default suite: one or more of each family, and all that end soon."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from support.bombs.bomb import Bomb

# Families whose bombs may take their whole time: these stand for the others.
_SOME: Final = {
    "load Parquet": (
        "nulls in a list",
        "repeated value",
        "claimed page",
        "shared column",
        "deep schema",
        "claimed footer",
        "a page of 1 GiB in zstd",
    ),
    "load CSV, detected": (
        "equal names",
        "open quote",
        "many columns",
        "short rows",
        "empty members",
        "long cells",
    ),
    "load JSON, detected": (
        "many keys",
        "deep objects",
        "long number",
        "large exponent",
        "packed items",
        "line breaks",
        "new keys on every line",
    ),
    "append at once": ("12 views of one text", "12 calls of empty rows", "500 idle calls"),
    "load CSV with a schema": ("many delimiters", "line breaks", "empty members"),
    "load JSON with a schema": ("many keys", "deep lists", "packed items", "blank text"),
    "SQL nesting": (
        "nested SAFE.ABS",
        "nested NET.HOST",
        "nested GREATEST",
        "nested FORMAT %T",
        "nested CASE",
        "nested brackets",
        "nested subquery",
        "nested UNNEST WITH OFFSET",
        "nested STRING_AGG with LIMIT",
    ),
    "SQL chains": ("CTEs that join the one before twice", "a CTE that doubles itself"),
    "SQL width": ("100,000 conditions", "10,000 columns", "a number of a million digits"),
    "SQL growth": ("REPEAT", "GENERATE_ARRAY", "rows of 100 kB", "ARRAY_AGG"),
    "SQL functions": ("a regex of large counts", "NORMALIZE", "FORMAT with a huge width", "EDIT_DISTANCE"),
    "SQL scripts": ("an endless loop", "2,000 SELECTs", "a text that doubles"),
    "SQL dry run": ("nested GREATEST", "100,000 conditions"),
    "SQL view": ("nested SAFE.ABS",),
    "SQL CREATE VIEW": ("nested GREATEST",),
    "SQL cancelled": ("nested GREATEST", "REPEAT", "an empty loop"),
    "REST bodies everywhere": (),
    "SQL at once": ("40 dry runs", "42 of SAFE.ABS"),
}


def is_quick(bomb: Bomb) -> bool:
    """Whether a bomb belongs to the default suite."""
    return bomb.family not in _SOME or bomb.name in _SOME[bomb.family]
