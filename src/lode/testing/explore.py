"""Every interleaving of a few actors over one store, with crashes and lost answers wherever they can happen.

A state is what the store holds, where each actor stands and which troubles may still happen. States are
visited breadth first, each once, so a violation comes with a shortest trace; the runs they stand for are
counted over the graph of states afterwards.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from lode.errors import LodeError, OutcomeUnknownError, StoreError
from lode.testing.sim import (
    Actor,
    Alone,
    Answer,
    Contents,
    Crashed,
    Program,
    Raised,
    Returned,
    Running,
    World,
)
from lode.testing.timeline import Event, Step, Trace, render

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lode.testing.sim import Status

CRASHES = frozenset({Event.CRASHED, Event.CRASHED_AFTER, Event.CRASHED_DURING})
TAKING_EFFECT = frozenset({Event.ANSWERED, Event.UNHEARD, Event.CRASHED_AFTER, Event.LANDED})

RECOVERY = "recovery"
"""The name under which a view shows the recovery actor."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """Who runs, on what, and what may go wrong.

    Attributes:
        actors: The programs that run at once, by name.
        initial: What the store holds at the start, dated a day before all that the actors write.
        crashes: How many actors may crash in one run, before or after any call.
        mortal: Who may crash; everybody if not given.
        unknown: How many mutating calls of one run may end in ``OutcomeUnknownError``, having taken effect or
            not.
        delayed: A mutating call whose answer nobody heard, because it was lost or because the caller crashed,
            may take effect at any later time, or never.
        failures: How many calls of one run may fail with a plain ``StoreError`` and no effect.
        compare_and_swap: Whether the store has it.
        raises: The errors an actor may end with. Any other is a violation, and so is ``AssertionError``.
        recovery: An actor run alone from every content the store ever has. It must return, and the checks
            must hold afterwards: whatever the others left behind, the next one gets through. Requests under
            way stay so meanwhile.
        track_order: Remember who had returned when an actor made its first call, for ``View.before``.
        max_calls: An actor that makes more calls than this in one run is a violation.
    """

    actors: Mapping[str, Actor]
    initial: Mapping[str, bytes] = field(default_factory=dict)
    crashes: int = 0
    mortal: Collection[str] | None = None
    unknown: int = 0
    delayed: bool = False
    failures: int = 0
    compare_and_swap: bool = True
    raises: tuple[type[Exception], ...] = (LodeError,)
    recovery: Actor | None = None
    track_order: bool = False
    max_calls: int = 200


class View:
    """What a checker sees of one moment: the store and how far each actor came."""

    __slots__ = ("_before", "_number", "_swap", "_world", "actors", "store")

    def __init__(
        self,
        world: World,
        number: int,
        actors: Mapping[str, Status],
        before: Mapping[str, frozenset[str]],
        *,
        swap: bool,
    ) -> None:
        self.store: Contents = world.contents[number]
        self.actors = actors
        self._world = world
        self._number = number
        self._before = before
        self._swap = swap

    @property
    def returned(self) -> dict[str, Any]:
        """What each actor returned that did."""
        return {name: status.value for name, status in self.actors.items() if isinstance(status, Returned)}

    @property
    def raised(self) -> dict[str, Exception]:
        return {name: status.error for name, status in self.actors.items() if isinstance(status, Raised)}

    @property
    def crashed(self) -> frozenset[str]:
        return frozenset(name for name, status in self.actors.items() if isinstance(status, Crashed))

    @property
    def running(self) -> frozenset[str]:
        return frozenset(name for name, status in self.actors.items() if isinstance(status, Running))

    def before(self, actor: str) -> frozenset[str]:
        """Return who had returned when ``actor`` made its first call; needs ``track_order``."""
        return self._before.get(actor, frozenset())

    def ask(self, actor: Actor) -> Any:
        """Run ``actor`` alone on this store and return what it returns; what it writes is forgotten.

        An actor is run once for each content of the store, so asking is cheap as long as it is the same
        function each time. Treat the result as frozen.
        """
        return self._world.ask(self._number, actor, swap=self._swap)

    def __repr__(self) -> str:
        actors = ", ".join(f"{name} {status}" for name, status in self.actors.items())
        return f"View({actors}; {dict(self.store)})"


Check: TypeAlias = Callable[[View], object]
"""Raises, or returns False, when what it sees must never be."""


class Violation(AssertionError):  # noqa: N818 - it is a finding, not an error of the explorer
    """A run that breaks a check, as short as any."""

    def __init__(self, reason: str, trace: Trace, *, seed: int | None = None) -> None:
        origin = "" if seed is None else f"seed {seed}: "
        super().__init__(f"{origin}{reason}\n\n{render(trace)}")
        self.reason = reason
        self.trace = trace
        self.seed = seed

    def __reduce__(self) -> tuple[Any, ...]:
        return AssertionError, (str(self),)


class Ending(NamedTuple):
    """One way a scenario can end, and how many interleavings end that way."""

    view: View
    interleavings: int


@dataclass(frozen=True, slots=True)
class Report:
    """How much was explored.

    Attributes:
        states: Distinct states.
        transitions: Steps between them.
        interleavings: Complete runs that the states stand for.
        crashes: Transitions that are a crash.
        recoveries: Distinct store contents from which the recovery actor was run.
        calls: The most calls each actor made in one run.
        endings: Every way to end, as a view, with the number of interleavings that lead to it.
    """

    states: int
    transitions: int
    interleavings: int
    crashes: int
    recoveries: int
    calls: Mapping[str, int]
    endings: tuple[Ending, ...] = field(repr=False)

    def count(self, holds: Callable[[View], object]) -> int:
        """Return how many interleavings end in a view for which ``holds``."""
        return sum(ending.interleavings for ending in self.endings if holds(ending.view))

    def __str__(self) -> str:
        parts = [
            f"{self.interleavings:,} interleavings in {self.states:,} states",
            f"{self.transitions:,} transitions",
            f"{self.crashes:,} of them crashes",
        ]
        if self.recoveries:
            parts.append(f"{self.recoveries:,} recoveries")
        return ", ".join(parts)


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
        """Return all that may happen next. What cannot be told from another move is left out."""
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
        return self.told(state, steps, recovery)

    def told(self, state: State, steps: Iterable[Step], recovery: Alone | None = None) -> Trace:
        """Put steps that led to ``state`` into a trace, with those of a recovery behind them."""
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


def explore(
    scenario: Scenario,
    *,
    check: Check | None = None,
    check_end: Check | None = None,
    max_states: int = 5_000_000,
) -> Report:
    """Visit every state a scenario can come to and check each.

    Args:
        scenario: Who runs and what may go wrong.
        check: Called with a view of every state.
        check_end: Called where every actor has ended or crashed.
        max_states: Give up with ``RuntimeError`` rather than fill the memory.

    Raises:
        Violation: Some run breaks a check; no run that breaks one is shorter.
    """
    system = System(scenario, check=check, check_end=check_end)
    graph = _Graph(system)
    numbers = {system.start(): 0}
    graph.states.append(system.start())
    graph.inspect(0)
    for number, state in enumerate(graph.states):
        for move in system.moves(state):
            after = system.apply(state, move)
            target = numbers.setdefault(after, len(graph.states))
            graph.edges.append(target)
            graph.crashes += move[1] in CRASHES
            if target == len(graph.states):
                if target >= max_states:
                    raise RuntimeError(f"more than {max_states:,} states: narrow the scenario")
                graph.states.append(after)
                graph.origins.append((number, move))
                graph.inspect(target)
        graph.bounds.append(len(graph.edges))
    return graph.report()


class _Graph:
    """The states visited so far, how each was first come to, and where each leads."""

    def __init__(self, system: System) -> None:
        self.states: list[State] = []
        self.origins: list[tuple[int, Move]] = [(0, (0, Event.ANSWERED, 0))]
        self.edges = array("q")
        self.bounds = array("q", [0])
        self.crashes = 0
        self._system = system

    def inspect(self, number: int) -> None:
        try:
            self._system.inspect(self.states[number])
        except Broken as broken:
            trace = self._system.trace(self._path(number), broken.recovery)
            raise Violation(str(broken), trace) from broken.__cause__

    def report(self) -> Report:
        endings: dict[tuple[int, ...], int] = {}
        for state, ways in zip(self.states, self._ways(), strict=True):
            if self._system.settled(state):
                key = self._system.key(state)
                endings[key] = endings.get(key, 0) + ways
        return Report(
            states=len(self.states),
            transitions=len(self.edges),
            interleavings=sum(endings.values()),
            crashes=self.crashes,
            recoveries=len(self._system.recoveries),
            calls=self._system.calls(),
            endings=tuple(Ending(self._system.view(key), ways) for key, ways in endings.items()),
        )

    def _path(self, number: int) -> list[Move]:
        path: list[Move] = []
        while number:
            number, move = self.origins[number]
            path.append(move)
        return path[::-1]

    def _ways(self) -> list[int]:
        """Count the runs that lead to each state: sums over the edges, predecessors first."""
        waiting = [0] * len(self.states)
        for target in self.edges:
            waiting[target] += 1
        ways = [1] + [0] * (len(self.states) - 1)
        ready = [0]
        while ready:
            number = ready.pop()
            for target in self.edges[self.bounds[number] : self.bounds[number + 1]]:
                ways[target] += ways[number]
                waiting[target] -= 1
                if not waiting[target]:
                    ready.append(target)
        return ways


def replay(scenario: Scenario, steps: Iterable[Step]) -> Trace:
    """Make the same steps again and return the trace; ``ValueError`` where one comes out differently."""
    system = System(scenario)
    wanted = tuple(steps)
    state = system.start()
    done: list[Step] = []
    recovery: Alone | None = None
    for place, step in enumerate(wanted, 1):
        if step.actor == RECOVERY:
            recovery = system.recover(state[0])
            break
        for move in system.moves(state):
            after = system.apply(state, move)
            if system.step(state, move, after) == step:
                break
        else:
            raise ValueError(f"step {place} does not happen again: {step}")
        done.append(step)
        state = after
    trace = system.told(state, done, recovery)
    if trace.steps != wanted:
        raise ValueError("the recovery does not happen again")
    return trace
