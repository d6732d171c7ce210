"""Codecs, compressors and checksums by the names that manifests record.

Lode has its own. An installed distribution adds one with an entry point::

    [project.entry-points."lode.codecs"]
    csv = "lode_csv:Csv"

The entry point is a class or function that is called without arguments. It is loaded when a dataset names it.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from lode.errors import InvalidOptionError
from lode.near import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from importlib.metadata import EntryPoint


class HasName(Protocol):
    """An object that has the name under which manifests record it."""

    @property
    def name(self) -> str: ...


T = TypeVar("T", bound=HasName)


class Registry(Generic[T]):
    """The objects of one kind, by name.

    Args:
        kind: What they are, for messages: ``codec``.
        own: The classes that Lode has, by name. Entry points cannot replace them.
    """

    def __init__(self, kind: str, own: Mapping[str, Callable[[], T]]) -> None:
        self._kind = kind
        self._own = own

    @property
    def names(self) -> tuple[str, ...]:
        """All names: Lode's own first, then those of entry points."""
        return (*self._own, *sorted({*self._entries()} - {*self._own}))

    def find(self, name: str) -> T | None:
        """Return a new object of this name, or None if there is none.

        Raises:
            InvalidOptionError: An entry point has this name and cannot be used.
        """
        factory = self._own.get(name)
        if factory is not None:
            return factory()
        entries = self._entries().get(name, ())
        return self._load(entries) if entries else None

    def get(self, name: str) -> T:
        """Return a new object of this name.

        Raises:
            InvalidOptionError: There is none, or it cannot be used.
        """
        found = self.find(name)
        if found is None:
            hint = did_you_mean(name, self.names) or f"known are {', '.join(self.names)}"
            raise InvalidOptionError(f"unknown {self._kind} {name!r}: {hint}")
        return found

    def _entries(self) -> dict[str, tuple[EntryPoint, ...]]:
        return _entry_points(tuple(sys.path), f"lode.{self._kind}s")

    def _load(self, entries: tuple[EntryPoint, ...]) -> T:
        entry = entries[0]
        if len({each.value for each in entries}) > 1:
            owners = " and ".join(sorted(map(_distribution, entries)))
            raise InvalidOptionError(
                f"{self._kind} {entry.name!r} is in several distributions, {owners}: uninstall all but one"
            )
        try:
            made: T = entry.load()()
            name = made.name
        except Exception as error:
            raise InvalidOptionError(
                f"{self._kind} {entry.name!r} of {_distribution(entry)} cannot be loaded from {entry.value}: "
                f"{error!r}"
            ) from error
        if name != entry.name:
            raise InvalidOptionError(
                f"{self._kind} {entry.name!r} of {_distribution(entry)} calls itself {name!r}: "
                "an entry point and its object have one name"
            )
        return made


@lru_cache(maxsize=16)
def _entry_points(_path: tuple[str, ...], group: str) -> dict[str, tuple[EntryPoint, ...]]:
    """Return the entry points of a group by name. The search takes milliseconds: once per ``sys.path``."""
    from importlib.metadata import entry_points

    found: dict[str, tuple[EntryPoint, ...]] = {}
    for entry in entry_points(group=group):
        found[entry.name] = (*found.get(entry.name, ()), entry)
    return found


def _distribution(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else "an unknown distribution"
