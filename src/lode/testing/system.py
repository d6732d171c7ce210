"""A scenario as states and moves.

A state is the content of the store, the position of each actor, and the faults that may still happen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from lode.errors import OutcomeUnknownError, StoreError
from lode.testing.actor import Alone, Program, Raised, Returned, Status, World
from lode.testing.scenario import RECOVERY, Check, Scenario, View
from lode.testing.sim import Answer
from lode.testing.timeline import Event, Step, Trace

if TYPE_CHECKING:
    from collections.abc import Iterable

CRASHES = frozenset({Event.CRASHED, Event.CRASHED_AFTER, Event.CRASHED_DURING})
TAKING_EFFECT = frozenset({Event.ANSWERED, Event.UNHEARD, Event.CRASHED_AFTER, Event.LANDED})


class Extra(NamedTuple):
    """The part of a state that changes seldom: troubles left, who came before whom, requests under way."""

    crashes: int
    unknown: int
    failures: int
    order: int
    pending: tuple[tuple[int, int], ...]


State: TypeAlias = tuple[int, ...]
"""The numbers of the store's content and of the ``Extra``, then each actor's position."""

Move: TypeAlias = tuple[int, Event, int]
"""Whose move, what happens, and for a landing which of the requests under way."""


class Broken(Exception):  # noqa: N818 - carries a finding to where the trace is known
    """A state breaks a check."""

    def __init__(self, reason: str, recovery: Alone | None = None) -> None:
        super().__init__(reason)
        self.recovery = recovery


class System:
    """A scenario as states and moves: what may happen next, and what then is."""

    def __init__(
        self, scenario: Scenario, *, check: Check | None = None, check_end: Check | None = None
    ) -> None:
        if RECOVERY in scenario.actors:
            raise ValueError(f"the name {RECOVERY!r} is taken by the recovery actor")
        self.scenario = scenario
        self.names = tuple(scenario.actors)
        self.world = World(scenario.initial)
        self.recoveries: dict[int, Alone] = {}
        self._check = check
        self._check_end = check_end
        self._swap = scenario.compare_and_swap
        self._programs = tuple(
            Program(self.world, name, actor, swap=self._swap, max_calls=scenario.max_calls)
            for name, actor in scenario.actors.items()
        )
        self._mortal = tuple(scenario.mortal is None or name in scenario.mortal for name in self.names)
        self._unknown = self.world.answer(Answer(error=OutcomeUnknownError, message="the answer was lost"))
        self._failure = self.world.answer(Answer(error=StoreError, message="the store failed"))
        extra = Extra(scenario.crashes, scenario.unknown, scenario.failures, 0, ())
        self._extras = [extra]
        self._extra_numbers = {extra: 0}
        self._spent: dict[tuple[int, Move, int], int] = {}
        self._checked: set[tuple[int, ...]] = set()
        self._check_ended: set[tuple[int, ...]] = set()

    def start(self) -> State:
        return self.world.store(self.world.initial), 0, *(Program.START for _ in self._programs)

    def moves(self, state: State) -> list[Move]:
        """Return all moves that are possible next, without those that equal another move."""
        store = state[0]
        extra = self._extras[state[1]]
        effect = self.world.effect
        moves: list[Move] = []
        for index, program in enumerate(self._programs):
            call = program.next[state[index + 2]]
            if call < 0:
                continue
            moves.append((index, Event.ANSWERED, 0))
            crashes = extra.crashes and self._mortal[index]
            if crashes:
                moves.append((index, Event.CRASHED, 0))
            if extra.failures:
                moves.append((index, Event.FAILED, 0))
            if not (crashes or extra.unknown) or not self.world.operations[call].mutating:
                continue
            if self.scenario.delayed:
                if crashes:
                    moves.append((index, Event.CRASHED_DURING, 0))
                if extra.unknown:
                    moves.append((index, Event.DELAYED, 0))
                continue
            changes = effect(store, call)[0] != store
            if crashes and changes:
                moves.append((index, Event.CRASHED_AFTER, 0))
            if extra.unknown:
                moves.append((index, Event.LOST, 0))
                if changes:
                    moves.append((index, Event.UNHEARD, 0))
        for slot, (index, call) in enumerate(extra.pending):
            if effect(store, call)[0] != store:
                moves.append((index, Event.LANDED, slot))
        return moves

    def apply(self, state: State, move: Move) -> State:
        index, event, _ = move
        program = self._programs[index]
        position = state[index + 2]
        call = self._call(state, move)
        after = list(state)
        if event in TAKING_EFFECT:
            after[0], answer = self.world.effect(state[0], call)
        if event is Event.ANSWERED:
            after[index + 2] = program.advance(position, answer)
        else:
            after[1] = self._extra_after(state[1], move, call)
            if event in CRASHES:
                after[index + 2] = Program.CRASHED
            elif event is not Event.LANDED:
                lost = self._failure if event is Event.FAILED else self._unknown
                after[index + 2] = program.advance(position, lost)
        if self.scenario.track_order and position == Program.START and event is not Event.LANDED:
            extra = self._extras[after[1]]
            order = extra.order | self._returned(state[2:]) << index * len(self._programs)
            after[1] = self._extra_number(extra._replace(order=order))
        return tuple(after)

    def settled(self, state: State) -> bool:
        """Whether no actor has anything left to do."""
        return all(
            program.next[position] < 0 for program, position in zip(self._programs, state[2:], strict=True)
        )

    def key(self, state: State) -> tuple[int, ...]:
        """Return what of a state a checker can see."""
        seen = [
            position if program.next[position] < 0 else Program.START
            for program, position in zip(self._programs, state[2:], strict=True)
        ]
        return state[0], self._extras[state[1]].order, *seen

    def view(self, key: tuple[int, ...], recovery: Alone | None = None) -> View:
        store, order, *positions = key
        count = len(positions)
        actors = self._statuses(tuple(positions))
        before = {
            name: frozenset(self.names[bit] for bit in range(count) if order >> (index * count + bit) & 1)
            for index, name in enumerate(self.names)
        }
        if recovery is not None:
            store = self.world.store(recovery.store)
            actors[RECOVERY] = recovery.status
            before[RECOVERY] = frozenset(
                name for name, status in actors.items() if name != RECOVERY and isinstance(status, Returned)
            )
        return View(self.world, store, actors, before, swap=self._swap)

    def inspect(self, state: State) -> None:
        """Run the checks on a state, unless one that looks the same passed them before.

        Raises:
            Broken: A check does not hold, an actor failed, or recovery does not get through.
        """
        key = self.key(state)
        if key not in self._checked:
            view = self.view(key)
            for name, error in view.raised.items():
                if isinstance(error, AssertionError) or not isinstance(error, self.scenario.raises):
                    raise Broken(f"{name} raised {_reason(error)}") from error
            self._hold(self._check, view)
            self._recover(key)
            self._checked.add(key)
        if self._check_end is not None and key not in self._check_ended and self.settled(state):
            self._hold(self._check_end, self.view(key))
            self._check_ended.add(key)

    def step(self, before: State, move: Move, after: State) -> Step:
        """Describe a move that was made."""
        index, event, _ = move
        call = self._call(before, move)
        answer: Answer | None = None
        if event is Event.ANSWERED:
            answer = self.world.answers[self.world.effect(before[0], call)[1]]
        elif event is Event.FAILED:
            answer = self.world.answers[self._failure]
        elif event in (Event.LOST, Event.UNHEARD, Event.DELAYED):
            answer = self.world.answers[self._unknown]
        store = self.world.contents[after[0]]
        return Step(self.names[index], event, self.world.operations[call], answer, store)

    def trace(self, path: Iterable[Move], recovery: Alone | None = None) -> Trace:
        """Make the moves from the start and describe them."""
        state = self.start()
        steps: list[Step] = []
        for move in path:
            before, state = state, self.apply(state, move)
            steps.append(self.step(before, move, state))
        return self.trace_of(state, steps, recovery)

    def trace_of(self, state: State, steps: Iterable[Step], recovery: Alone | None = None) -> Trace:
        """Return the trace of the steps that led to ``state``, followed by those of a recovery."""
        names, statuses, done = self.names, self._statuses(state[2:]), tuple(steps)
        if recovery is not None:
            names, statuses = (*names, RECOVERY), {**statuses, RECOVERY: recovery.status}
            done += tuple(Step(RECOVERY, Event.RECOVERED, *call) for call in recovery.calls)
        return Trace(names, self.world.initial, done, statuses)

    def calls(self) -> dict[str, int]:
        longest = {name: program.longest for name, program in zip(self.names, self._programs, strict=True)}
        if self.recoveries:
            longest[RECOVERY] = max(len(alone.calls) for alone in self.recoveries.values())
        return longest

    def recover(self, store: int) -> Alone:
        """Run the scenario's recovery actor alone on a content of the store."""
        if self.scenario.recovery is None:
            raise ValueError("the scenario has no recovery actor")
        known = self.recoveries.get(store)
        if known is None:
            known = self.world.alone(store, self.scenario.recovery, swap=self._swap)
            self.recoveries[store] = known
        return known

    def _recover(self, key: tuple[int, ...]) -> None:
        if self.scenario.recovery is None:
            return
        alone = self.recover(key[0])
        if isinstance(alone.status, Raised):
            reason = f"recovery raised {_reason(alone.status.error)}"
            raise Broken(reason, alone) from alone.status.error
        try:
            self._hold(self._check, self.view(key, alone))
        except Broken as broken:
            raise Broken(f"after recovery: {broken}", alone) from broken.__cause__

    def _hold(self, check: Check | None, view: View) -> None:
        if check is None:
            return
        try:
            held = check(view)
        except Exception as error:
            raise Broken(_reason(error)) from error
        if held is False:
            raise Broken(f"{getattr(check, '__name__', 'the check')} does not hold")

    def _statuses(self, positions: tuple[int, ...]) -> dict[str, Status]:
        return {
            name: program.statuses[position]
            for name, program, position in zip(self.names, self._programs, positions, strict=True)
        }

    def _returned(self, positions: tuple[int, ...]) -> int:
        return sum(
            1 << index
            for index, (program, position) in enumerate(zip(self._programs, positions, strict=True))
            if isinstance(program.statuses[position], Returned)
        )

    def _call(self, state: State, move: Move) -> int:
        index, event, slot = move
        if event is Event.LANDED:
            return self._extras[state[1]].pending[slot][1]
        return self._programs[index].next[state[index + 2]]

    def _extra_after(self, number: int, move: Move, call: int) -> int:
        known = self._spent.get((number, move, call))
        if known is None:
            known = self._extra_number(_spend(self._extras[number], move, call))
            self._spent[number, move, call] = known
        return known

    def _extra_number(self, extra: Extra) -> int:
        number = self._extra_numbers.setdefault(extra, len(self._extras))
        if number == len(self._extras):
            self._extras.append(extra)
        return number


def _spend(extra: Extra, move: Move, call: int) -> Extra:
    """Return what is left, and what is under way, after a move other than a plain answer."""
    index, event, slot = move
    if event is Event.LANDED:
        return extra._replace(pending=extra.pending[:slot] + extra.pending[slot + 1 :])
    if event is Event.FAILED:
        return extra._replace(failures=extra.failures - 1)
    if event in (Event.CRASHED_DURING, Event.DELAYED):
        # Sorting is stable, so one actor's requests stay in the order it sent them.
        pending = sorted((*extra.pending, (index, call)), key=lambda request: request[0])
        extra = extra._replace(pending=tuple(pending))
    if event in CRASHES:
        return extra._replace(crashes=extra.crashes - 1)
    return extra._replace(unknown=extra.unknown - 1)


def _reason(error: Exception) -> str:
    if isinstance(error, AssertionError) and str(error):
        return str(error)
    return f"{type(error).__name__}: {error}"
