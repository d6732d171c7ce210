"""The contenders, each with the few operations that all of them have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.peers.delta import Delta
from benchmarks.peers.floor import Floor
from benchmarks.peers.iceberg import Iceberg
from benchmarks.peers.lance import Lance
from benchmarks.peers.ours import Lode

if TYPE_CHECKING:
    from benchmarks.peers.contender import Contender

__all__ = ["contender", "contenders", "names"]


def contenders() -> list[Contender]:
    """Everybody, the floor and us first, whether installed or not."""
    return [
        Floor(durable=False),
        Lode(durable=False),
        Floor(durable=True),
        Lode(durable=True),
        Delta(),
        Iceberg(),
        Lance(),
    ]


def names() -> tuple[str, ...]:
    return tuple(each.name for each in contenders())


def contender(name: str) -> Contender:
    """The one of this name."""
    return next(each for each in contenders() if each.name == name)
