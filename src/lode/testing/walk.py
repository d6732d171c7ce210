"""Seeded random walks: scenarios too large to exhaust, one run at a time, with the same steps and checks."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lode.testing.scenario import Violation
from lode.testing.system import CRASHES, Broken, System
from lode.testing.timeline import Event

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lode.testing.scenario import Check, Scenario
    from lode.testing.system import Move
    from lode.testing.timeline import Step, Trace


@dataclass(frozen=True, slots=True)
class WalkReport:
    """How far a number of walks came."""

    walks: int
    distinct: int
    steps: int
    crashes: int

    def __str__(self) -> str:
        return (
            f"{self.walks:,} walks, {self.distinct:,} of them different, "
            f"{self.steps:,} steps, {self.crashes:,} crashes"
        )


def walk(
    scenario: Scenario,
    seed: int,
    *,
    check: Check | None = None,
    check_end: Check | None = None,
    trouble: float = 0.2,
) -> Trace:
    """Run ``scenario`` once; all that is left to chance is drawn from ``seed``, so it happens again exactly.

    Args:
        scenario: Who runs and what may go wrong.
        seed: Which run.
        check: Called with a view of every state on the way.
        check_end: Called once every actor has ended or crashed.
        trouble: The most likely that something goes wrong at one step; each walk draws its own below.

    Raises:
        Violation: A check does not hold; its ``seed`` gives the same run again.
    """
    return _walk(System(scenario, check=check, check_end=check_end), seed, trouble)


def _walk(system: System, seed: int, trouble: float) -> Trace:
    chance = random.Random(seed)
    temper = _Temper(stay=chance.choice((0.0, 0.5, 0.9)), trouble=chance.random() * trouble)
    state = system.start()
    steps: list[Step] = []
    last = -1
    while True:
        try:
            system.inspect(state)
        except Broken as broken:
            trace = system.trace_of(state, steps, broken.recovery)
            raise Violation(str(broken), trace, seed=seed) from broken.__cause__
        moves = system.moves(state)
        # What is under way when all are done may land or not.
        if not moves or (system.settled(state) and chance.random() < 0.5):
            return system.trace_of(state, steps)
        move = temper.choose(moves, chance, last)
        before, state, last = state, system.apply(state, move), move[0]
        steps.append(system.step(before, move, state))


def walks(
    scenario: Scenario,
    seeds: Iterable[int],
    *,
    check: Check | None = None,
    check_end: Check | None = None,
    trouble: float = 0.2,
) -> WalkReport:
    """Walk once for each seed; the first that fails raises its ``Violation``."""
    # One system: what an actor does after the same answers, and a check of the same state, is not repeated.
    system = System(scenario, check=check, check_end=check_end)
    made = steps = crashes = 0
    different: set[int] = set()
    for seed in seeds:
        trace = _walk(system, seed, trouble)
        made += 1
        steps += len(trace.steps)
        crashes += sum(step.event in CRASHES for step in trace.steps)
        different.add(hash(tuple((step.actor, step.event, step.operation) for step in trace.steps)))
    return WalkReport(walks=made, distinct=len(different), steps=steps, crashes=crashes)


@dataclass(frozen=True, slots=True)
class _Temper:
    """How one walk behaves: how long it stays with an actor, and how often things go wrong.

    A walk that changes actors at every step hardly ever lets one of them run far ahead of another, which is
    where the worst interleavings are.
    """

    stay: float
    trouble: float

    def choose(self, moves: list[Move], chance: random.Random, last: int) -> Move:
        plain = [move for move in moves if move[1] in (Event.ANSWERED, Event.LANDED)]
        rare = [move for move in moves if move[1] not in (Event.ANSWERED, Event.LANDED)]
        if rare and chance.random() < self.trouble:
            return chance.choice(rare)
        if chance.random() < self.stay:
            plain = [move for move in plain if move[:2] == (last, Event.ANSWERED)] or plain
        return chance.choice(plain)
