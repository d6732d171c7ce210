"""Expectations: checks on the rows that a pipeline writes, and what to do with rows that fail them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from lode.errors import InvalidOptionError

OnFail: TypeAlias = Literal["warn", "drop", "fail", "quarantine"]
"""What to do with a row that fails a check."""

# A row's failed checks are the bits of a 64-bit number; the highest is for rows outside of a recomputation.
MAX_EXPECTATIONS: Final = 62


@dataclass(frozen=True, slots=True)
class Expectation:
    """A check on every row that a pipeline writes.

    Args:
        check: SQL of Spark over the columns of the output. A row passes if it is true. False and NULL fail.
        on_fail: ``"warn"`` writes the row and counts it, ``"drop"`` leaves it out, ``"quarantine"`` writes it
            to the quarantine dataset instead, ``"fail"`` stops the batch, and nothing is committed.
    """

    check: str
    on_fail: OnFail = "warn"

    def __post_init__(self) -> None:
        if not isinstance(self.check, str) or not self.check.strip():
            raise InvalidOptionError(f"check is {self.check!r}: it is SQL such as 'id IS NOT NULL'")
        if self.on_fail not in get_args(OnFail):
            raise InvalidOptionError(
                f"on_fail is {self.on_fail!r}: it is one of {', '.join(get_args(OnFail))}"
            )
