"""Stop an operation at each of its store calls, one after the other, or let another run between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

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


class Between(FaultStore):
    """Runs something just before each of the first swaps of a pointer."""

    def __init__(self, inner: Store, *acts: Callable[[], object], pointer: str = "/latest") -> None:
        super().__init__(inner)
        self._acts = list(acts)
        self._pointer = pointer

    def around(self, method: str, path: str, call: Callable[[], Any]) -> Any:
        if method == "compare_and_swap" and path.endswith(self._pointer) and self._acts:
            self._acts.pop(0)()
        return super().around(method, path, call)
