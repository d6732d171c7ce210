"""Crashes, lost answers, late requests and failures each do what they say, shown on the smallest scenario."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lode.errors import OutcomeUnknownError, StoreError
from lode.testing.explore import Scenario, Violation, explore
from lode.testing.timeline import Event

if TYPE_CHECKING:
    from lode.store.protocol import Store
    from lode.testing.explore import Report, View
    from lode.testing.sim import SwapStore


def put(store: Store) -> str:
    try:
        store.put("x", b"1")
    except OutcomeUnknownError:
        return "unknown"
    return "done"


def put_and_look(store: Store) -> tuple[str, bool]:
    return put(store), store.exists("x")


def endings(report: Report) -> set[tuple[str, bool]]:
    """Return how ``a`` ended and whether the object is there."""
    return {(str(ending.view.actors["a"]), "x" in ending.view.store) for ending in report.endings}


def test_with_nothing_to_go_wrong_nothing_does() -> None:
    report = explore(Scenario(actors={"a": put}))
    assert endings(report) == {("returned 'done'", True)}


def test_a_crash_comes_before_a_call_or_after_it_took_effect() -> None:
    report = explore(Scenario(actors={"a": put}, crashes=1))
    assert endings(report) == {("returned 'done'", True), ("crashed", False), ("crashed", True)}
    assert report.interleavings == 3


def test_only_the_mortal_crash() -> None:
    report = explore(Scenario(actors={"a": put, "b": put_and_look}, crashes=2, mortal={"b"}))
    assert {name for ending in report.endings for name in ending.view.crashed} == {"b"}


def test_a_crash_of_a_call_that_changes_nothing_is_one_way_to_end() -> None:
    report = explore(Scenario(actors={"a": lambda store: store.exists("x")}, crashes=1))
    assert report.interleavings == 2


def test_an_unknown_outcome_took_effect_or_did_not() -> None:
    report = explore(Scenario(actors={"a": put}, unknown=1))
    assert endings(report) == {
        ("returned 'done'", True),
        ("returned 'unknown'", True),
        ("returned 'unknown'", False),
    }
    assert report.interleavings == 3


def test_only_calls_that_change_something_have_unknown_outcomes() -> None:
    report = explore(Scenario(actors={"a": lambda store: store.exists("x")}, unknown=1))
    assert report.interleavings == 1


def test_an_unknown_outcome_is_settled_at_once_unless_requests_may_be_late() -> None:
    def late(view: View) -> bool:
        return view.returned.get("a") == ("unknown", False) and "x" in view.store

    at_once = explore(Scenario(actors={"a": put_and_look}, unknown=1))
    at_any_time = explore(Scenario(actors={"a": put_and_look}, unknown=1, delayed=True))
    assert at_once.count(late) == 0
    assert at_any_time.count(late) == 1
    # Answered; never landed; landed before the look; landed after it.
    assert at_any_time.interleavings == 4


def test_a_late_swap_compares_with_what_is_there_when_it_lands() -> None:
    def swap_twice(store: SwapStore) -> str:
        try:
            store.compare_and_swap("p", b"0", b"1")
        except OutcomeUnknownError:
            store.compare_and_swap("p", b"0", b"2")
        return store.get("p").decode()

    report = explore(Scenario(actors={"a": swap_twice}, initial={"p": b"0"}, unknown=1, delayed=True))
    assert {(ending.view.returned["a"], ending.view.store["p"]) for ending in report.endings} == {
        ("1", b"1"),
        ("2", b"2"),
    }


def test_a_late_delete_removes_what_was_put_after_it() -> None:
    def replace(store: Store) -> str:
        try:
            store.delete("x")
        except OutcomeUnknownError:
            store.delete("x")
        store.put("x", b"new")
        return "replaced"

    def still_there(view: View) -> bool:
        return "a" not in view.returned or "x" in view.store

    scenario = Scenario(actors={"a": replace}, initial={"x": b"old"}, unknown=1)
    explore(scenario, check=still_there)
    late = Scenario(actors={"a": replace}, initial={"x": b"old"}, unknown=1, delayed=True)
    with pytest.raises(Violation, match="still_there does not hold") as found:
        explore(late, check=still_there)
    events = [step.event for step in found.value.trace.steps]
    assert events == [Event.DELAYED, Event.ANSWERED, Event.ANSWERED, Event.LANDED]


def test_the_request_of_a_crashed_actor_may_land_long_after_it_died() -> None:
    def look_twice(store: Store) -> tuple[bool, bool]:
        return store.exists("x"), store.exists("x")

    def never_from_the_dead(view: View) -> bool:
        return not ("a" in view.crashed and view.returned.get("b") == (False, False) and "x" in view.store)

    actors = {"a": put, "b": look_twice}
    with pytest.raises(Violation) as found:
        explore(Scenario(actors=actors, crashes=1, mortal={"a"}, delayed=True), check=never_from_the_dead)
    events = [step.event for step in found.value.trace.steps]
    assert events == [Event.ANSWERED, Event.ANSWERED, Event.CRASHED_DURING, Event.LANDED] or events == [
        Event.CRASHED_DURING,
        Event.ANSWERED,
        Event.ANSWERED,
        Event.LANDED,
    ]


def test_no_more_outcomes_are_unknown_than_may_be() -> None:
    def count(store: Store) -> int:
        lost = 0
        for number in range(4):
            try:
                store.put(str(number), b"")
            except OutcomeUnknownError:
                lost += 1
        return lost

    for unknown in range(4):
        for delayed in (False, True):
            report = explore(Scenario(actors={"a": count}, unknown=unknown, delayed=delayed))
            assert max(ending.view.returned["a"] for ending in report.endings) == unknown


def test_a_failure_has_no_effect_and_may_happen_to_any_call() -> None:
    def careful(store: Store) -> str:
        try:
            store.put("x", b"1")
        except StoreError as error:
            return type(error).__name__
        try:
            store.get("x")
        except StoreError:
            return "unread"
        return "read"

    report = explore(Scenario(actors={"a": careful}, failures=1))
    assert endings(report) == {
        ("returned 'StoreError'", False),
        ("returned 'unread'", True),
        ("returned 'read'", True),
    }


def test_the_order_of_calls_in_time_is_known_where_it_is_asked_for() -> None:
    actors = {"w": put, "r": lambda store: store.exists("x")}

    def fresh(view: View) -> bool:
        return "w" not in view.before("r") or view.returned.get("r") is not False

    report = explore(Scenario(actors=actors, track_order=True), check=fresh)
    seen = {("w" in ending.view.before("r"), ending.view.returned["r"]) for ending in report.endings}
    assert seen == {(True, True), (False, False)}
    untracked = explore(Scenario(actors=actors))
    assert untracked.interleavings == report.interleavings
    assert not any(ending.view.before("r") for ending in untracked.endings)
