"""Programs as sequences of store calls, replayed from the answers they were given.

An actor is an ordinary function of a store. It is never suspended: what it has done so far is the list of
answers it was given, and what it does next is found by running it again from the start with those answers. So
it must be deterministic: clock, ids and randomness come from the test, and it makes its calls on one thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

from lode.testing.sim import Answer, Contents, Operation, SimStore, SimSwapStore, SwapStore, perform

Actor: TypeAlias = Callable[[SwapStore], object]


class NondeterministicActorError(BaseException):
    """An actor given the same answers made other calls; no handler of the actor may hide that."""


class EndlessActorError(AssertionError):
    """An actor made more calls than the scenario allows and was still not done."""


@dataclass(frozen=True, slots=True)
class Running:
    """The actor has calls to make."""

    def __str__(self) -> str:
        return "running"


@dataclass(frozen=True, slots=True)
class Returned:
    """The actor is done and gave ``value``."""

    value: Any

    def __str__(self) -> str:
        return f"returned {self.value!r}"


@dataclass(frozen=True, slots=True)
class Raised:
    """The actor ended with ``error``. Errors of one type and one message count as the same."""

    error: Exception

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Raised) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def __str__(self) -> str:
        return f"raised {type(self.error).__name__}: {self.error}"

    def _identity(self) -> tuple[type[Exception], str]:
        return type(self.error), str(self.error)


@dataclass(frozen=True, slots=True)
class Crashed:
    """The actor died between two calls or inside one, and nothing of it will ever run again."""

    def __str__(self) -> str:
        return "crashed"


Ended: TypeAlias = Returned | Raised
Status: TypeAlias = Running | Returned | Raised | Crashed


def outcome(ended: Ended) -> Any:
    """Return what an actor returned or raise what it raised."""
    if isinstance(ended, Raised):
        raise ended.error.with_traceback(None)
    return ended.value


RUNNING = Running()
CRASHED = Crashed()


class _Suspended(BaseException):
    """Unwinds an actor that has made its next call."""


class _Replay:
    """Feeds recorded answers, then stops the actor at its first call beyond them and at every call after."""

    def __init__(self, operations: list[Operation], answers: list[Answer]) -> None:
        self.next: Operation | None = None
        self.used = 0
        self.diverged: NondeterministicActorError | None = None
        self._operations = operations
        self._answers = answers
        self._thread = threading.get_ident()

    def answer(self, operation: Operation) -> Any:
        if self.next is not None:
            raise _Suspended
        if threading.get_ident() != self._thread:
            self._diverge("it called its store from another thread")
        if self.used == len(self._answers):
            self.next = operation
            raise _Suspended
        before = self._operations[self.used]
        if operation != before:
            self._diverge(f"given the same answers, call {self.used + 1} was {before} and is now {operation}")
        self.used += 1
        return self._answers[self.used - 1].take()

    def _diverge(self, how: str) -> NoReturn:
        self.diverged = NondeterministicActorError(how)
        raise self.diverged


def _store(answer: Callable[[Operation], Any], *, swap: bool) -> Any:
    return SimSwapStore(answer) if swap else SimStore(answer)


class World:
    """Every content, call and answer met so far as a small number, and what each call does to each."""

    def __init__(self, initial: Mapping[str, bytes]) -> None:
        self.initial = Contents(initial)
        self.contents: list[Contents] = []
        self.operations: list[Operation] = []
        self.answers: list[Answer] = []
        self._numbers: dict[tuple[type, Any], int] = {}
        self._effects: dict[tuple[int, int], tuple[int, int]] = {}
        self._asked: dict[tuple[int, Actor, bool], Ended] = {}

    def store(self, contents: Contents) -> int:
        return self._number(self.contents, contents)

    def operation(self, operation: Operation) -> int:
        return self._number(self.operations, operation)

    def answer(self, answer: Answer) -> int:
        return self._number(self.answers, answer)

    def effect(self, store: int, operation: int) -> tuple[int, int]:
        """Return the store after the call and the answer to it."""
        known = self._effects.get((store, operation))
        if known is None:
            contents, answer = perform(self.contents[store], self.operations[operation], self.initial)
            known = self._effects[store, operation] = self.store(contents), self.answer(answer)
        return known

    def alone(self, store: int, actor: Actor, *, swap: bool) -> Alone:
        """Run ``actor`` by itself on this content."""
        return run_alone(actor, self.contents[store], swap=swap, initial=self.initial)

    def ask(self, store: int, actor: Actor, *, swap: bool) -> Any:
        """Return what ``actor`` returns, run by itself on this content, or raise it; it is run once."""
        known = self._asked.get((store, actor, swap))
        if known is None:
            known = self._asked[store, actor, swap] = self.alone(store, actor, swap=swap).status
        return outcome(known)

    def _number(self, known: list[Any], value: Any) -> int:
        number = self._numbers.setdefault((type(value), value), len(known))
        if number == len(known):
            known.append(value)
        return number


class Program:
    """One actor and all it was ever seen to do: a position for each sequence of answers, each run once.

    Positions where it ended the same way are one position, and so are all where it crashed.
    """

    CRASHED = 0
    START = 1

    def __init__(
        self, world: World, name: str, actor: Actor, *, swap: bool = True, max_calls: int = 200
    ) -> None:
        self.next: list[int] = [-1]
        """By position: the number of the call it makes there; -1 where it makes none."""
        self.statuses: list[Status] = [CRASHED]
        self.longest = 0
        self._world = world
        self._name = name
        self._actor = actor
        self._swap = swap
        self._max_calls = max_calls
        self._origins: list[tuple[int, int]] = [(0, 0)]
        self._children: dict[tuple[int, int], int] = {}
        self._endings: dict[tuple[type, Ended], int] = {}
        self._grow(0, 0)

    def advance(self, position: int, answer: int) -> int:
        """Return the position of the actor after its call at ``position`` got this answer."""
        known = self._children.get((position, answer))
        if known is None:
            known = self._children[position, answer] = self._grow(position, answer)
        return known

    def _grow(self, parent: int, answer: int) -> int:
        operations, answers = self._history(parent, answer)
        self.longest = max(self.longest, len(answers))
        then = self._run(operations, answers)
        if isinstance(then, Operation):
            if len(answers) < self._max_calls:
                return self._add(parent, answer, self._world.operation(then), RUNNING)
            then = Raised(EndlessActorError(f"still running after {self._max_calls} calls"))
        kind = type(then.value if isinstance(then, Returned) else then.error)
        try:
            known = self._endings.get((kind, then))
        except TypeError:
            return self._add(parent, answer, -1, then)
        if known is None:
            known = self._endings[kind, then] = self._add(parent, answer, -1, then)
        return known

    def _add(self, parent: int, answer: int, operation: int, status: Status) -> int:
        self.next.append(operation)
        self.statuses.append(status)
        self._origins.append((parent, answer))
        return len(self.next) - 1

    def _history(self, position: int, answer: int) -> tuple[list[Operation], list[Answer]]:
        operations: list[Operation] = []
        answers: list[Answer] = []
        while position:
            operations.append(self._world.operations[self.next[position]])
            answers.append(self._world.answers[answer])
            position, answer = self._origins[position]
        return operations[::-1], answers[::-1]

    def _run(self, operations: list[Operation], answers: list[Answer]) -> Operation | Ended:
        replay = _Replay(operations, answers)
        ended: Ended = Returned(None)
        try:
            ended = Returned(self._actor(_store(replay.answer, swap=self._swap)))
        except (_Suspended, NondeterministicActorError):
            pass
        except Exception as error:
            ended = Raised(error)
        if replay.diverged is not None:
            raise NondeterministicActorError(f"actor {self._name!r}: {replay.diverged}")
        if replay.next is not None:
            return replay.next
        if replay.used < len(answers):
            raise NondeterministicActorError(
                f"actor {self._name!r}: given the same answers, it ended after {replay.used} calls, "
                f"not after {len(answers)} or more"
            )
        return ended


@dataclass(frozen=True, slots=True)
class Alone:
    """One actor run by itself: how it ended, what it left, and the calls it made."""

    status: Ended
    store: Contents
    calls: tuple[tuple[Operation, Answer, Contents], ...]

    @property
    def value(self) -> Any:
        """What the actor returned; raises what it raised."""
        return outcome(self.status)


def run_alone(
    actor: Actor,
    store: Mapping[str, bytes],
    *,
    swap: bool = True,
    max_calls: int = 1000,
    initial: Contents | None = None,
) -> Alone:
    """Run ``actor`` to its end on a copy of ``store`` without other actors."""
    contents = store if isinstance(store, Contents) else Contents(store)
    old = contents if initial is None else initial
    calls: list[tuple[Operation, Answer, Contents]] = []

    def answer(operation: Operation) -> Any:
        nonlocal contents
        if len(calls) >= max_calls:
            raise _Suspended
        contents, given = perform(contents, operation, old)
        calls.append((operation, given, contents))
        return given.take()

    status: Ended
    try:
        status = Returned(actor(_store(answer, swap=swap)))
    except _Suspended:
        status = Raised(EndlessActorError(f"still running alone after {max_calls} calls"))
    except Exception as error:
        status = Raised(error)
    return Alone(status, contents, tuple(calls))
