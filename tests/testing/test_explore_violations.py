"""A planted fault is found, comes with a shortest trace and replays; a right program is left alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lode.errors import LodeError, NotFoundError, OutcomeUnknownError, PathExistsError
from lode.testing.actor import EndlessActorError, Raised, Returned, run_alone
from lode.testing.explore import RECOVERY, Scenario, Violation, explore, replay
from lode.testing.timeline import Event

if TYPE_CHECKING:
    from lode.store.protocol import Store
    from lode.testing.explore import View
    from lode.testing.sim import SwapStore

COUNTER = {"n": b"0"}


def careless(store: Store) -> None:
    """Add one the way a store without compare-and-swap has it: read, remove, write."""
    value = int(store.get("n"))
    store.delete("n")
    store.put("n", b"%d" % (value + 1))


def careful(store: SwapStore) -> None:
    while True:
        value = store.get("n")
        if store.compare_and_swap("n", value, b"%d" % (int(value) + 1)):
            return


def nothing_lost(view: View) -> None:
    counted = int(view.store.get("n", b"0"))
    assert counted >= len(view.returned), f"{len(view.returned)} increments returned, {counted} counted"


def nothing_invented(view: View) -> None:
    assert int(view.store["n"]) <= len(view.actors) - len(view.raised)


def both(view: View) -> None:
    nothing_lost(view)
    nothing_invented(view)


def test_a_lost_update_is_found() -> None:
    with pytest.raises(Violation, match="2 increments returned, 1 counted") as found:
        explore(Scenario(actors={"a": careless, "b": careless}, initial=COUNTER), check_end=nothing_lost)
    assert found.value.reason.startswith("2 increments returned, 1 counted")
    verbs = [step.operation.verb for step in found.value.trace.steps]
    # Both read 0; only if the second removes and writes after the first wrote do both return.
    assert sorted(verbs) == ["delete", "delete", "get", "get", "put", "put"]


@pytest.mark.parametrize("crashes", [0, 1, 3])
def test_a_counter_that_swaps_loses_nothing(crashes: int) -> None:
    actors = {"a": careful, "b": careful, "c": careful}
    report = explore(Scenario(actors=actors, initial=COUNTER, crashes=crashes, recovery=careful), check=both)
    assert report.interleavings > 100
    assert report.recoveries == 4
    assert report.calls == {"a": 6, "b": 6, "c": 6, RECOVERY: 2}


def test_a_counter_that_swaps_again_after_an_unknown_outcome_counts_twice() -> None:
    def hasty(store: SwapStore) -> None:
        try:
            careful(store)
        except OutcomeUnknownError:
            careful(store)

    def at_most_one(view: View) -> None:
        assert int(view.store["n"]) <= 1

    with pytest.raises(Violation) as found:
        explore(Scenario(actors={"a": hasty}, initial=COUNTER, unknown=1), check=at_most_one)
    assert [step.event for step in found.value.trace.steps] == [
        Event.ANSWERED,
        Event.UNHEARD,
        Event.ANSWERED,
        Event.ANSWERED,
    ]


def test_a_trace_is_as_short_as_any() -> None:
    def long_way(store: Store) -> None:
        for number in range(6):
            store.exists(str(number))
        store.put("x", b"")

    def short_way(store: Store) -> None:
        store.exists("0")
        store.put("x", b"")

    def empty(view: View) -> bool:
        return not view.store

    with pytest.raises(Violation) as found:
        explore(Scenario(actors={"long": long_way, "short": short_way}), check=empty)
    assert [step.actor for step in found.value.trace.steps] == ["short", "short"]


def scenarios() -> list[Scenario]:
    pair = {"a": careless, "b": careless}
    return [
        Scenario(actors=pair, initial=COUNTER),
        Scenario(actors=pair, initial=COUNTER, crashes=1, unknown=1),
        Scenario(actors=pair, initial=COUNTER, crashes=1, unknown=2, delayed=True, failures=1),
    ]


@pytest.mark.parametrize("scenario", scenarios())
def test_a_trace_replays_exactly(scenario: Scenario) -> None:
    with pytest.raises(Violation) as found:
        explore(scenario, check_end=nothing_lost)
    assert replay(scenario, found.value.trace.steps) == found.value.trace
    with pytest.raises(Violation) as again:
        explore(scenario, check_end=nothing_lost)
    assert again.value.trace == found.value.trace


def test_a_trace_of_another_scenario_does_not_replay() -> None:
    with pytest.raises(Violation) as found:
        explore(Scenario(actors={"a": careless, "b": careless}, initial=COUNTER), check_end=nothing_lost)
    with pytest.raises(ValueError, match="step 1 does not happen again"):
        replay(Scenario(actors={"a": careless, "b": careless}, initial={"n": b"7"}), found.value.trace.steps)


def test_a_violation_shows_its_timeline_and_its_cause() -> None:
    with pytest.raises(Violation) as found:
        explore(Scenario(actors={"a": careful}, initial=COUNTER), check=lambda view: int(view.store["m"]))
    assert str(found.value).startswith("KeyError: 'm'\n")
    assert isinstance(found.value.__cause__, KeyError)
    assert found.value.trace.steps == ()


def test_an_actor_may_end_only_with_errors_the_scenario_expects() -> None:
    def missing(store: Store) -> None:
        store.get("missing")

    def broken(store: Store) -> None:
        store.exists("x")
        raise KeyError("oops")

    report = explore(Scenario(actors={"a": missing}))
    assert [type(ending.view.raised["a"]) for ending in report.endings] == [NotFoundError]
    with pytest.raises(Violation, match="a raised NotFoundError: no object at 'missing'"):
        explore(Scenario(actors={"a": missing}, raises=(PathExistsError,)))
    with pytest.raises(Violation, match="a raised KeyError: 'oops'") as found:
        explore(Scenario(actors={"a": broken}))
    assert len(found.value.trace.steps) == 1


def test_an_assertion_of_an_actor_is_a_violation_whatever_it_may_raise() -> None:
    def doubts(store: Store) -> None:
        assert store.exists("x"), "no x"

    with pytest.raises(Violation, match="a raised no x"):
        explore(Scenario(actors={"a": doubts}, raises=(Exception,)))


def test_an_actor_that_waits_for_another_is_a_violation() -> None:
    def waits(store: Store) -> None:
        while not store.exists("signal"):
            pass

    def signals(store: Store) -> None:
        store.put("signal", b"")

    with pytest.raises(Violation, match="waits raised still running after 20 calls"):
        explore(Scenario(actors={"waits": waits, "signals": signals}, max_calls=20))


def locked(store: Store) -> str:
    """Hold a lock that a crash leaves behind."""
    store.put("lock", b"")
    store.put("x", b"")
    store.delete("lock")
    return "done"


def after_the_lock(store: Store) -> str:
    while True:
        try:
            store.put("lock", b"")
        except PathExistsError:
            continue
        store.delete("lock")
        return "through"


def test_a_recovery_that_does_not_get_through_is_a_violation() -> None:
    scenario = Scenario(actors={"a": locked}, recovery=after_the_lock)
    with pytest.raises(Violation, match="recovery raised still running alone") as found:
        explore(scenario)
    assert [step.actor for step in found.value.trace.steps][:2] == ["a", RECOVERY]
    assert replay(scenario, found.value.trace.steps).steps == found.value.trace.steps


def test_the_checks_hold_after_recovery_too() -> None:
    def tidy(store: Store) -> str:
        for info in list(store.list()):
            store.delete(info.path)
        return "tidied"

    def kept(view: View) -> bool:
        return "a" not in view.returned or "x" in view.store

    scenario = Scenario(actors={"a": locked}, recovery=tidy)
    with pytest.raises(Violation, match="after recovery: kept does not hold") as found:
        explore(scenario, check=kept)
    trace = found.value.trace
    assert trace.statuses == {"a": Returned("done"), RECOVERY: Returned("tidied")}
    assert replay(scenario, trace.steps) == trace


def test_recovery_runs_once_from_each_content_of_the_store() -> None:
    runs: list[int] = []

    def counted(store: Store) -> None:
        runs.append(1)
        store.exists("x")

    report = explore(Scenario(actors={"a": locked, "b": locked}, crashes=1, recovery=counted))
    # The lock and x, each there or not, but nobody writes x without the lock: {}, {lock}, {lock, x}, {x}.
    assert len(runs) == report.recoveries == 4


def test_a_view_answers_from_the_store_once_for_each_content() -> None:
    runs: list[int] = []

    def listing(store: Store) -> tuple[str, ...]:
        runs.append(1)
        return tuple(info.path for info in store.list())

    def same(view: View) -> bool:
        found: tuple[str, ...] = view.ask(listing)
        return found == tuple(view.store)

    report = explore(Scenario(actors={"a": locked, "b": locked}, crashes=1), check=same)
    assert report.states > len(runs) == 4


def test_a_view_raises_what_the_asked_actor_raises() -> None:
    def get(store: Store) -> bytes:
        return store.get("x")

    def asks(view: View) -> None:
        if "x" not in view.store:
            with pytest.raises(NotFoundError):
                view.ask(get)

    explore(Scenario(actors={"a": locked}), check=asks)


def test_an_actor_alone_is_stopped_when_it_does_not_end() -> None:
    def stubborn(store: Store) -> None:
        while True:
            try:
                store.get("x")
            except LodeError:
                continue

    alone = run_alone(stubborn, {}, max_calls=10)
    assert isinstance(alone.status, Raised)
    assert isinstance(alone.status.error, EndlessActorError)
    assert len(alone.calls) == 10


def test_the_name_of_the_recovery_actor_is_taken() -> None:
    with pytest.raises(ValueError, match="taken"):
        explore(Scenario(actors={RECOVERY: locked}))
