"""Every interleaving of a few actors over one store, with crashes and lost answers wherever they can happen.

States are visited breadth first, each once, so a violation comes with a shortest trace. Runs are counted
over the graph of states afterwards.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from lode.testing.scenario import RECOVERY, Check, Scenario, View, Violation
from lode.testing.system import CRASHES, Broken, System
from lode.testing.timeline import Event

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from lode.testing.actor import Alone
    from lode.testing.system import Move, State
    from lode.testing.timeline import Step, Trace

__all__ = ["RECOVERY", "Check", "Ending", "Report", "Scenario", "View", "Violation", "explore", "replay"]


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
        interleavings: Complete runs through the states.
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
    """Make the same steps again and return the trace.

    Args:
        scenario: The scenario that the steps are of.
        steps: The steps, such as those of the trace of a ``Violation``.

    Raises:
        ValueError: A step comes out differently than it is given.
    """
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
    trace = system.trace_of(state, done, recovery)
    if trace.steps != wanted:
        raise ValueError("the recovery does not happen again")
    return trace
