"""Stop an operation at each of its store calls, one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from lode.store import CountingStore, Fault, FaultStore, MemoryStore, SimulatedCrash

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lode.store import Store

When = Literal["before", "after"]


def cloned(store: MemoryStore) -> MemoryStore:
    """A store with the same objects."""
    made = MemoryStore()
    for entry in store.list():
        made.put(entry.path, store.get(entry.path))
    return made


def crashed_at_each_call(
    start: MemoryStore, act: Callable[[Store], object], when: When
) -> Iterator[MemoryStore]:
    """What the store has after a crash at the first call, at the second, and so on, of the same operation."""
    nth = 0
    while True:
        nth += 1
        store = cloned(start)
        counted = CountingStore(store)
        try:
            act(FaultStore(counted, Fault(nth=nth, when=when)))
        except SimulatedCrash:
            yield store
            continue
        # A call that raised an error of its own does not crash after it.
        if nth > len(counted.events):
            assert nth > 3, "the operation makes calls"
            return
