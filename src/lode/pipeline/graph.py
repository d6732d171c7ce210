"""The graph of pipelines: which one reads what another one writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lode.errors import InvalidOptionError, NotFoundError
from lode.near import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping


@dataclass(frozen=True, slots=True)
class Node:
    """What a pipeline reads and writes. Datasets are any values that are equal if they are the same dataset.

    The pipeline must be the only writer of datasets that it ``replaces`` rows of.
    """

    reads: frozenset[Hashable]
    writes: frozenset[Hashable]
    replaces: frozenset[Hashable] = frozenset()


class Graph:
    """Pipelines by name, in an order in which each comes after those that it reads from.

    Raises:
        InvalidOptionError: Pipelines read from each other in a ring, one reads its own sink, or one that
            replaces rows has a sink that another one writes too.
    """

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        writers: dict[Hashable, list[str]] = {}
        for name, node in nodes.items():
            if node.reads & node.writes:
                raise InvalidOptionError(
                    f"pipeline {name!r} reads {_shown(node.reads & node.writes)} and writes to it: it would "
                    "read its own output endlessly; write to another dataset"
                )
            for dataset in node.writes:
                writers.setdefault(dataset, []).append(name)
        for dataset, names in writers.items():
            replacing = [name for name in names if dataset in nodes[name].replaces]
            if len(names) > 1 and replacing:
                others = ", ".join(repr(name) for name in names if name != replacing[0])
                raise InvalidOptionError(
                    f"pipeline {replacing[0]!r} replaces rows of {_shown([dataset])}, which {others} writes "
                    "too: let each write to a dataset of its own"
                )
        self.upstream = {
            name: frozenset(other for dataset in node.reads for other in writers.get(dataset, ()))
            for name, node in nodes.items()
        }
        self.order = self._sorted()

    def _sorted(self) -> list[str]:
        """The names in order. Those that are independent keep the order in which they were given."""
        order: list[str] = []
        left = list(self.upstream)
        while left:
            ready = next((name for name in left if self.upstream[name] <= set(order)), None)
            if ready is None:
                raise InvalidOptionError(f"pipelines read from each other in a ring: {self._ring(left)}")
            left.remove(ready)
            order.append(ready)
        return order

    def _ring(self, left: list[str]) -> str:
        """One ring among names of which each reads from another one of them."""
        path = [left[0]]
        while True:
            before = next(name for name in left if name in self.upstream[path[-1]])
            if before in path:
                ring = [*path[path.index(before) :], before]
                return " → ".join(reversed(ring))
            path.append(before)

    def before(self, name: str) -> frozenset[str]:
        """All pipelines that ``name`` reads from, directly or not."""
        found: set[str] = set()
        waiting = [*self.upstream[name]]
        while waiting:
            other = waiting.pop()
            if other not in found:
                found.add(other)
                waiting += self.upstream[other]
        return frozenset(found)

    def after(self, name: str) -> frozenset[str]:
        """All pipelines that read from ``name``, directly or not."""
        return frozenset(other for other in self.upstream if name in self.before(other))

    def check_name(self, name: str) -> str:
        if name not in self.upstream:
            hint = did_you_mean(name, self.upstream) or f"there are {', '.join(self.upstream)}"
            raise NotFoundError(f"no pipeline {name!r}: {hint}")
        return name

    def select(self, wanted: Iterable[str]) -> list[str]:
        """The chosen names in order; all if nothing is wanted.

        Args:
            wanted: Each is a name, ``name+`` with all that read from it, ``+name`` with all that it reads
                from, or several of them with commas or spaces between.
        """
        words = [word for text in wanted for word in text.replace(",", " ").split()]
        if not words:
            return list(self.order)
        chosen: set[str] = set()
        for word in words:
            name = self.check_name(word.removeprefix("+").removesuffix("+"))
            chosen.add(name)
            if word.startswith("+"):
                chosen |= self.before(name)
            if word.endswith("+"):
                chosen |= self.after(name)
        return [name for name in self.order if name in chosen]


def _shown(datasets: Iterable[Any]) -> str:
    return " and ".join(f"dataset {each[-1]!r}" for each in sorted(datasets, key=str))
