"""Explicit-state model of commits that are shared with Go: every interleaving, late swap and crash.

Python writers declare, swap, publish and open, as ``write/commit.py`` does. Go's readers are ``Latest()`` of
Lode for Go 0.9: read the pointer; if its snapshot has no manifest, list, and swap the pointer from what was
read to the largest id. Go's writer is ``Write`` of a new process: read the pointer, or list; swap; put the
manifest. A process that crashed is one that takes no further step.

The store is a pointer (id, mark), manifests {id: parent}, intents {id: parent} and swaps under way. The mark
is "open" or "closed". Go reads a closed pointer as a text that is no id, and no swap of Go's succeeds on it.
Snapshot 0 is the published root. Not modelled: groups, partitions, keys, sweep.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator

Pointer: TypeAlias = tuple[int, str]
Table: TypeAlias = tuple[tuple[int, int], ...]

T = TypeVar("T")

OPEN, CLOSED = "open", "closed"

Mutant: TypeAlias = Literal[
    "",
    "plain",  # the pointer is never closed: the protocol of a dataset that is not shared
    "reread",  # never closed; after publishing, the pointer is read again, and moved again if it went back
    "padded",  # closed by white space alone: Go reads the id of a snapshot without a manifest
    "eager",  # opened before the manifest is published
    "overtake",  # a pointer whose Go writer is late is left without a trace
]


class State(NamedTuple):
    """What the store holds, and where every process is."""

    pointer: Pointer
    manifests: Table
    intents: Table
    flying: tuple[tuple[Pointer, Pointer], ...]
    writers: tuple[tuple[str, int], ...]
    go_readers: tuple[tuple[str, Pointer, int], ...]
    go_writers: tuple[tuple[str, Pointer, int], ...]


class ViolationError(Exception):
    """A state that must not be."""


@dataclass(frozen=True, slots=True)
class Model:
    """How many processes of each kind, and what is changed in the protocol."""

    writers: int = 2
    go_readers: int = 0
    go_writers: int = 0
    mutant: Mutant = ""
    # Ids in the order in which Go sorts them: those of the Python writers, then those of Go's.
    go_first: bool = False
    # Whether a writer gives up if the head has a larger id than its own.
    increasing: bool = False

    def explore(self) -> int:
        """Look at every state that can be reached, and return how many there are."""
        idle = ("idle", (0, OPEN), 0)
        start = State(
            (0, OPEN),
            ((0, 0),),
            (),
            (),
            tuple(("start", 0) for _ in range(self.writers)),
            tuple(idle for _ in range(self.go_readers)),
            tuple(idle for _ in range(self.go_writers)),
        )
        seen, todo = {start}, [start]
        while todo:
            for state in self._steps(todo.pop()):
                if state not in seen:
                    self._check(state)
                    seen.add(state)
                    todo.append(state)
        return len(seen)

    def _id(self, writer: int) -> int:
        return writer + 1 + (10 if self.go_first else 0)

    def _go_id(self, writer: int) -> int:
        return writer + 1 + (0 if self.go_first else 10)

    # -- steps ---------------------------------------------------------------------------------

    def _steps(self, state: State) -> Iterator[State]:
        for swap in state.flying:
            landed = state._replace(flying=tuple(other for other in state.flying if other != swap))
            if state.pointer == swap[0]:
                landed = landed._replace(pointer=swap[1])
                # Its writer gets the answer, or has to look: then it is at "sent" for ever.
                for number, (step, base) in enumerate(state.writers):
                    if self._id(number) == swap[1][0] and step == "sent":
                        yield landed._replace(writers=_with(landed.writers, number, ("won", base)))
            yield landed
        for number, (step, base) in enumerate(state.writers):
            for writer, after in self._python(state, self._id(number), step, base):
                yield after._replace(writers=_with(after.writers, number, writer))
        for number, reader in enumerate(state.go_readers):
            for go, after in self._go_reads(state, *reader):
                yield after._replace(go_readers=_with(after.go_readers, number, go))
        for number, go_writer in enumerate(state.go_writers):
            for go, after in self._go_writes(state, self._go_id(number), *go_writer):
                yield after._replace(go_writers=_with(after.go_writers, number, go))

    def _python(
        self, state: State, own: int, step: str, base: int
    ) -> Iterator[tuple[tuple[str, int], State]]:
        manifests, intents = dict(state.manifests), dict(state.intents)
        named, mark = state.pointer
        if step == "start" or (step == "sent" and named != base):
            # Find the head, and finish what is unfinished there.
            if self.mutant == "eager" and mark == CLOSED:
                yield (step, base), state._replace(pointer=(named, OPEN))
            elif named not in manifests and named in intents:
                yield (step, base), self._publish(state, named, intents[named])
            elif named not in manifests:
                yield from self._overtake(state, own, step, base)
            elif mark == CLOSED:
                yield (step, base), state._replace(pointer=(named, OPEN))
            elif own in _history(state):
                yield ("done", 0), state
            elif own > named or not self.increasing:
                yield ("swap", named), state._replace(intents=_put(state.intents, own, named))
        elif step in ("swap", "sent"):
            # No answer yet, or none will come: the same swap may be sent again.
            swap = ((base, OPEN), (own, OPEN if self.mutant in ("plain", "reread") else CLOSED))
            if swap not in state.flying:
                yield ("sent", base), state._replace(flying=tuple(sorted((*state.flying, swap))))
        elif step == "won":
            if self.mutant == "eager" and state.pointer == (own, CLOSED):
                yield (step, base), state._replace(pointer=(own, OPEN))
            else:
                yield ("published", base), self._publish(state, own, intents[own])
        elif step == "published":
            if self.mutant == "reread" and own not in _history(state):
                if named == base:
                    yield (step, base), state._replace(pointer=(own, OPEN))
            elif state.pointer == (own, CLOSED):
                yield ("done", 0), state._replace(pointer=(own, OPEN))
            else:
                yield ("done", 0), state

    def _overtake(
        self, state: State, own: int, step: str, base: int
    ) -> Iterator[tuple[tuple[str, int], State]]:
        """The pointer names a snapshot of Go without a manifest, and its time is over."""
        parents = {parent for id, parent in state.manifests if id != parent}
        heads = [id for id, _ in state.manifests if id not in parents]
        if len(heads) > 1:
            return  # HistoryForkedError
        if self.mutant == "overtake":
            intents = _put(state.intents, own, heads[0])
            swap = (state.pointer, (own, CLOSED))
            if swap not in state.flying:
                flying = tuple(sorted((*state.flying, swap)))
                yield ("sent", state.pointer[0]), state._replace(intents=intents, flying=flying)
            return
        # An empty snapshot under Go's id: from now on Go's own manifest is refused.
        yield (step, base), self._publish(state, state.pointer[0], heads[0])

    def _publish(self, state: State, id: int, parent: int) -> State:
        known = dict(state.manifests)
        if id in known:
            if known[id] != parent:
                raise ViolationError(f"{id} is published behind {known[id]} and {parent}")
            return state
        return state._replace(manifests=_put(state.manifests, id, parent))

    def _seen_by_go(self, pointer: Pointer) -> Pointer:
        """What Go believes that the pointer holds."""
        return (pointer[0], OPEN) if self.mutant == "padded" else pointer

    def _go_reads(
        self, state: State, step: str, seen: Pointer, largest: int
    ) -> Iterator[tuple[tuple[str, Pointer, int], State]]:
        idle = ("idle", (0, OPEN), 0)
        if step == "idle":
            found = self._seen_by_go(state.pointer)
            if found[1] == CLOSED or found[0] not in dict(state.manifests):
                yield ("list", found, 0), state
        elif step == "list":
            yield ("repair", seen, max(dict(state.manifests))), state
        elif step == "repair":
            moved = (largest, OPEN) if self._go_may_swap(state, seen) else state.pointer
            yield idle, state._replace(pointer=moved)

    def _go_writes(
        self, state: State, own: int, step: str, seen: Pointer, parent: int
    ) -> Iterator[tuple[tuple[str, Pointer, int], State]]:
        idle = ("idle", (0, OPEN), 0)
        if step == "idle":
            found = self._seen_by_go(state.pointer)
            known = found[1] == OPEN and found[0] in dict(state.manifests)
            yield ("swap" if known else "list", found, found[0] if known else 0), state
        elif step == "list":
            yield ("swap", seen, max(dict(state.manifests))), state
        elif step == "swap":
            if self._go_may_swap(state, seen):
                yield ("put", seen, parent), state._replace(pointer=(own, OPEN))
            else:
                yield idle, state  # a conflict; it may try again
        elif step == "put":
            if own in dict(state.manifests):
                yield ("refused", seen, 0), state
            else:
                yield ("done", seen, 0), state._replace(manifests=_put(state.manifests, own, parent))

    def _go_may_swap(self, state: State, seen: Pointer) -> bool:
        """Whether all bytes of the pointer are what Go has read, without the white space around it."""
        return seen[1] == OPEN and state.pointer == seen

    # -- what must hold ------------------------------------------------------------------------

    def _check(self, state: State) -> None:
        history = _history(state)
        published = dict(state.manifests)
        for number, (step, _) in enumerate(state.writers):
            own = self._id(number)
            if step == "done" and (own not in history or own not in published):
                raise ViolationError(f"{own} was acknowledged, and the history is {history}")
            # With "reread" it is listed for a moment, which would hide what that one loses.
            if own in published and own not in history and self.mutant != "reread":
                raise ViolationError(f"{own} can be listed, and the history is {history}")
        # Beside other processes of Go, Go loses its own writes.
        if self.go_readers or self.go_writers > 1:
            return
        for number, (step, _, _) in enumerate(state.go_writers):
            own = self._go_id(number)
            if step == "done" and own not in history:
                raise ViolationError(f"Go's {own} was acknowledged, and the history is {history}")


def _history(state: State) -> list[int]:
    """The snapshots up to the pointer, newest first. One without a manifest is known by its intent."""
    manifests, intents = dict(state.manifests), dict(state.intents)
    found: list[int] = []
    current = state.pointer[0]
    while current != 0:
        if current in found:
            raise ViolationError(f"{current} is its own ancestor: {found}")
        found.append(current)
        if current in manifests:
            current = manifests[current]
        elif current in intents:
            current = intents[current]
        else:  # Go's, not published yet: what it will name is the head as links show it
            parents = {parent for id, parent in state.manifests if id != parent}
            heads = [id for id in manifests if id not in parents]
            if len(heads) > 1:
                raise ViolationError(f"the history has the heads {heads}")
            current = heads[0]
    return found


def _put(table: Table, key: int, value: int) -> Table:
    return tuple(sorted((dict(table) | {key: value}).items()))


def _with(items: tuple[T, ...], at: int, item: T) -> tuple[T, ...]:
    return (*items[:at], item, *items[at + 1 :])
