"""The slow way: value by value, for what Arrow has no kernel for, and to tell which values are bad."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lode.ingest.rows.problems import shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from lode.ingest.rows.problems import Place


def each(array: Any, place: Place, convert: Callable[[Any], Any]) -> list[Any]:
    """Convert each value; a ``ValueError`` finishes the sentence about a bad one, which becomes None."""
    converted: list[Any] = []
    bad: dict[int, str] = {}
    for index, value in enumerate(array.to_pylist()):
        try:
            converted.append(None if value is None else convert(value))
        except ValueError as why:
            bad[index] = str(why)
            converted.append(None)
    if bad:
        place.report(bad, lambda index: f"{shown(array, index)} {bad[index]}.")
    return converted
