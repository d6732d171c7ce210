"""One bomb: what is made, and how it is thrown."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from support.bombs.served import End

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.bombs.served import Served

    Throw = Callable[[Served, Any, float], End]


@dataclass(frozen=True, slots=True)
class Bomb:
    """One bomb.

    Args:
        family: What it is for.
        name: How it grows.
        make: Makes it, before the watch begins.
        throw: Sends it, and returns how it ended.
    """

    family: str
    name: str
    make: Callable[[], Any]
    throw: Throw

    @property
    def id(self) -> str:
        return f"{self.family}: {self.name}"


def at_once(throw: Throw, count: int) -> Throw:
    """Throw the same bomb many times at once; returns the worst end."""

    def thrown(served: Served, made: Any, seconds: float) -> End:
        ends: list[End] = []
        threads = [
            threading.Thread(target=lambda: ends.append(throw(served, made, seconds))) for _ in range(count)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        worst = min(ends, key=lambda end: (end.status != 0, -end.status))
        return End(worst.status, f"{count} at once, the worst: {worst.text}", worst.fault)

    return thrown
