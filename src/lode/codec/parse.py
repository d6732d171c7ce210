"""Whole columns of text that mean times or dates, read in one go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lode.lazy import pa, pt

if TYPE_CHECKING:
    from collections.abc import Sequence

# pyarrow reads more shapes than RFC 3339 has. What does not look like this goes the slow way, which decides.
_CLOCK: Final = r"[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?"
_YEAR: Final = "(000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})"  # a Python date begins with year 1
_MOMENT: Final = rf"^{_YEAR}-[0-9]{{2}}-[0-9]{{2}}[T ]{_CLOCK}"
_ZONED: Final = _MOMENT + r"(Z|[+-][0-9]{2}:[0-9]{2})$"
_NAIVE: Final = _MOMENT + "$"
_DATE: Final = rf"^{_YEAR}-[0-9]{{2}}-[0-9]{{2}}$"


def parse_text(values: Sequence[Any], field: pa.Field[Any]) -> pa.Array[Any] | None:
    """Return a column of text as times or dates, or None if the column is anything else."""
    kind: Any = field.type
    if pt.is_timestamp(kind) and kind.unit in ("us", "ns"):
        pattern = _NAIVE if kind.tz is None else _ZONED
    elif pt.is_date32(kind):
        pattern = _DATE
    else:
        return None
    kinds = set(map(type, values))
    if not kinds <= ({str, type(None)} if field.nullable else {str}) or str not in kinds:
        return None
    import pyarrow.compute as pc

    try:
        text: Any = pa.array(values, pa.string())
        shaped: Any = pc.all(pc.match_substring_regex(text, pattern))
        return text.cast(kind) if shaped.as_py() else None
    except (pa.ArrowException, ValueError):
        return None
