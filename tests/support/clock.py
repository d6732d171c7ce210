"""Time for tests that depend on the age of objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import timedelta


class Clock:
    """A clock that advances only on request, for the dates of a store and for what reads them."""

    def __init__(self) -> None:
        self.now = 1_700_000_000_000_000_000

    def __call__(self) -> int:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += int(seconds * 1e9)

    def pass_by(self, time: timedelta) -> None:
        self.now += int(time.total_seconds() * 1e9)
