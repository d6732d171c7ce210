"""The explorer visits what there is to visit: counts worked out by hand, and by a slow explorer beside it."""

from __future__ import annotations

from collections import Counter
from functools import cache
from math import comb
from typing import TYPE_CHECKING, Any

import pytest

from lode.errors import NotFoundError, OutcomeUnknownError, PathExistsError, StoreError
from lode.testing.explore import Scenario, explore
from lode.testing.sim import Answer, Contents, Operation, SimSwapStore, perform

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lode.testing.actor import Actor
    from lode.testing.sim import SwapStore


def puts(name: str, count: int) -> Actor:
    def actor(store: SwapStore) -> str:
        for number in range(count):
            store.put(f"{name}/{number}", b"")
        return name

    return actor


@pytest.mark.parametrize(("first", "second"), [(1, 1), (2, 3), (3, 4), (8, 8)])
def test_independent_actors_interleave_in_every_way(first: int, second: int) -> None:
    report = explore(Scenario(actors={"a": puts("a", first), "b": puts("b", second)}))
    assert report.interleavings == comb(first + second, first)
    assert report.states == (first + 1) * (second + 1)
    assert report.transitions == first * (second + 1) + second * (first + 1)
    assert report.calls == {"a": first, "b": second}
    assert len(report.endings) == 1


def test_three_actors_interleave_as_the_multinomial_says() -> None:
    actors = {"a": puts("a", 4), "b": puts("b", 3), "c": puts("c", 2)}
    assert explore(Scenario(actors=actors)).interleavings == comb(9, 4) * comb(5, 3)


def test_a_lone_actor_may_crash_before_and_after_each_of_its_writes() -> None:
    report = explore(Scenario(actors={"a": puts("a", 5)}, crashes=1))
    assert report.interleavings == 1 + 2 * 5
    assert report.crashes == 2 * 5
    # Running with 0 to 4 objects, returned with 5, crashed with 0 to 5.
    assert report.states == 5 + 1 + 6


def test_no_more_actors_crash_than_may() -> None:
    actors = {name: puts(name, 1) for name in "abc"}
    for crashes in range(4):
        report = explore(Scenario(actors=actors, crashes=crashes))
        assert max(len(ending.view.crashed) for ending in report.endings) == crashes


def test_the_report_says_how_many_interleavings_it_stands_for() -> None:
    report = explore(Scenario(actors={"a": puts("a", 8), "b": puts("b", 8)}))
    assert str(report) == "12,870 interleavings in 81 states, 144 transitions, 0 of them crashes"


def test_endings_tell_how_often_each_happens() -> None:
    def first(name: str) -> Actor:
        def actor(store: SwapStore) -> bool:
            return store.compare_and_swap("winner", None, name.encode())

        return actor

    report = explore(Scenario(actors={"a": first("a"), "b": first("b")}))
    assert report.interleavings == 2
    assert report.count(lambda view: view.returned == {"a": True, "b": False}) == 1
    assert report.count(lambda view: view.store["winner"] == b"b") == 1


def test_too_many_states_are_refused() -> None:
    with pytest.raises(RuntimeError, match="more than 10 states"):
        explore(Scenario(actors={"a": puts("a", 9), "b": puts("b", 9)}), max_states=10)


def busy(name: str) -> Actor:
    """Return an actor that does something different after every kind of answer."""

    def actor(store: SwapStore) -> str:
        seen = ""
        try:
            store.put("door", name.encode())
        except PathExistsError:
            seen += "taken "
        except OutcomeUnknownError:
            seen += "unknown "
        try:
            seen += store.get("door").decode()
            store.delete("door")
        except NotFoundError:
            seen += "gone"
        except OutcomeUnknownError:
            return "lost track"
        if store.compare_and_swap("pointer", b"0", name.encode()):
            store.put(name, b"won")
        return seen

    return actor


class _Stop(BaseException):
    pass


@cache
def _next(actor: Actor, answers: tuple[Answer, ...]) -> Operation | str:
    """Run the actor from its start with these answers."""
    given = iter(answers)

    def answer(operation: Operation) -> Any:
        for known in given:
            return known.take()
        raise _Stop(operation)

    try:
        return f"returned {actor(SimSwapStore(answer))!r}"
    except _Stop as stop:
        operation: Operation = stop.args[0]
        return operation
    except StoreError as error:
        return f"raised {type(error).__name__}: {error}"


FAILED = Answer(error=StoreError, message="the store failed")
LOST = Answer(error=OutcomeUnknownError, message="the answer was lost")

Endings = Counter[tuple[Contents, tuple[str, ...]]]


def slow_explore(
    actors: Mapping[str, Actor],
    initial: Contents,
    *,
    crashes: int,
    unknown: int,
    failures: int,
    delayed: bool,
) -> Endings:
    """Enumerate every run one by one, with no state ever taken for another."""
    found: Endings = Counter()
    programs = tuple(actors.values())

    def go(
        store: Contents,
        heard: tuple[tuple[Answer, ...] | None, ...],
        crashes: int,
        unknown: int,
        failures: int,
        pending: tuple[Operation, ...],
    ) -> None:
        ends: list[str] = []
        for place, answers in enumerate(heard):
            if answers is None:
                ends.append("crashed")
                continue
            then = _next(programs[place], answers)
            if isinstance(then, str):
                ends.append(then)
                continue
            after, answer = perform(store, then)

            def told(*given: Answer, place: int = place, answers: Any = answers) -> Any:
                changed = (*answers, *given) if given else None
                return (*heard[:place], changed, *heard[place + 1 :])

            go(after, told(answer), crashes, unknown, failures, pending)
            if crashes:
                go(store, told(), crashes - 1, unknown, failures, pending)
            if failures:
                go(store, told(FAILED), crashes, unknown, failures - 1, pending)
            if not then.mutating:
                continue
            if delayed:
                if crashes:
                    go(store, told(), crashes - 1, unknown, failures, (*pending, then))
                if unknown:
                    go(store, told(LOST), crashes, unknown - 1, failures, (*pending, then))
                continue
            if crashes and after != store:
                go(after, told(), crashes - 1, unknown, failures, pending)
            if unknown:
                go(store, told(LOST), crashes, unknown - 1, failures, pending)
                if after != store:
                    go(after, told(LOST), crashes, unknown - 1, failures, pending)
        for slot, request in enumerate(pending):
            after, _ = perform(store, request)
            if after != store:
                go(after, heard, crashes, unknown, failures, pending[:slot] + pending[slot + 1 :])
        if len(ends) == len(programs):
            found[store, tuple(ends)] += 1

    go(initial, tuple(() for _ in programs), crashes, unknown, failures, ())
    return found


@pytest.mark.parametrize("delayed", [False, True])
@pytest.mark.parametrize(
    ("crashes", "unknown", "failures"), [(0, 0, 0), (2, 0, 0), (0, 1, 0), (1, 1, 0), (0, 0, 1), (1, 0, 1)]
)
def test_taking_equal_states_for_one_loses_no_run_and_invents_none(
    crashes: int, unknown: int, failures: int, delayed: bool
) -> None:
    actors = {"a": busy("a"), "b": busy("b")}
    initial = Contents({"pointer": b"0"})
    report = explore(
        Scenario(
            actors=actors,
            initial=initial,
            crashes=crashes,
            unknown=unknown,
            failures=failures,
            delayed=delayed,
        )
    )
    slow = slow_explore(actors, initial, crashes=crashes, unknown=unknown, failures=failures, delayed=delayed)
    assert report.interleavings == slow.total()
    quick: Endings = Counter()
    for view, ways in report.endings:
        quick[view.store, tuple(str(status) for status in view.actors.values())] += ways
    assert quick == slow
