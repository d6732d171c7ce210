"""Every interleaving of small scenarios, with crashes and lost answers wherever they can happen.

The actors are the library itself. ``Holds`` checks after every step that history is one line, that what is
visible is whole, and that every promise made to a caller is kept; from every content the store ever has, a
fresh writer running alone gets through.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from lode.errors import HistoryForkedError, TransactionClosedError
from lode.testing.explore import Report, Scenario, Violation, explore
from lode.testing.plain import history as plain_history
from lode.testing.plain import one_line
from lode.testing.plain import reader as plain_reader
from lode.testing.plain import writer as plain_writer
from lode.testing.protocol import (
    SPLIT,
    WHOLE,
    Holds,
    dataset,
    published,
    reader,
    snapshot_id,
    two_transactions,
    writer,
)
from lode.testing.walk import walk, walks

if TYPE_CHECKING:
    from lode.testing.sim import SwapStore

IDS = {"a": snapshot_id(1), "b": snapshot_id(2), "c": snapshot_id(3), "d": snapshot_id(4)}

WHOLE_ACTORS = {"a": writer(1), "b": writer(2), "r": reader()}
SPLIT_ACTORS = {"a": writer(1, partition="x"), "b": writer(2, partition="y"), "r": reader(SPLIT)}
KEYED_ACTORS = {"a": writer(1, key="k"), "b": writer(2, key="k"), "r": reader()}


def explored(record: Any, layout: Any, scenario: Scenario) -> Report:
    if not scenario.initial:
        # The dataset exists. How one comes to be is explored apart, with callers who disagree about it.
        first = _history(7) if layout is WHOLE else _history(7, partition="first")
        scenario = replace(scenario, initial=first)
    report = explore(scenario, check=Holds(layout, IDS, ("r",)))
    record("interleavings", report.interleavings)
    return report


@pytest.fixture
def record(record_property: Any) -> Any:
    return record_property


def test_two_writers_of_one_dataset_and_a_reader_under_two_crashes(record: Any) -> None:
    scenario = Scenario(actors=WHOLE_ACTORS, crashes=2, recovery=writer(9), track_order=True)
    report = explored(record, WHOLE, scenario)
    assert report.calls["r"] <= 6, "a reader looks at no more than six objects and never waits"


def test_two_writers_whose_files_come_after_their_intents_under_a_crash_and_a_lost_answer(
    record: Any,
) -> None:
    actors = {"a": writer(1, beside=True), "b": writer(2, beside=True, append=True), "r": reader()}
    explored(record, WHOLE, Scenario(actors=actors, crashes=1, unknown=1, recovery=writer(9)))


def test_two_writers_of_two_partitions_and_a_reader_under_two_crashes(record: Any) -> None:
    recovery = writer(9, partition="z")
    explored(record, SPLIT, Scenario(actors=SPLIT_ACTORS, crashes=2, recovery=recovery, track_order=True))


def test_two_writers_under_one_idempotency_key_and_a_reader_under_two_crashes(record: Any) -> None:
    scenario = Scenario(actors=KEYED_ACTORS, crashes=2, recovery=writer(9, key="k"), track_order=True)
    explored(record, WHOLE, scenario)


def test_writers_of_different_partitions_both_succeed_whatever_the_order(record: Any) -> None:
    report = explored(record, SPLIT, Scenario(actors=SPLIT_ACTORS))
    assert report.count(lambda view: {"a", "b"} <= view.returned.keys()) == report.interleavings


def test_of_two_overlapping_writers_that_both_start_from_the_same_head_exactly_one_conflicts(
    record: Any,
) -> None:
    report = explored(record, WHOLE, Scenario(actors={"a": writer(1), "b": writer(2)}))
    for ending in report.endings:
        chain = {manifest.snapshot_id for manifest in published(ending.view.store)}
        assert len(chain) + len(ending.view.raised) == 3


def test_a_retrying_writer_follows_whoever_was_first(record: Any) -> None:
    scenario = Scenario(actors={"a": writer(1, retries=1), "b": writer(2, retries=1)}, crashes=1)
    report = explored(record, WHOLE, scenario)
    assert report.count(lambda view: not view.crashed and view.raised) == 0


def test_a_conflicted_transaction_can_be_committed_again_onto_what_it_lost_to(record: Any) -> None:
    scenario = Scenario(actors={"a": writer(1, warm=True), "b": writer(2)}, crashes=1, recovery=writer(9))
    report = explored(record, WHOLE, scenario)
    assert report.count(lambda view: not view.crashed and "a" in view.raised) == 0


@pytest.mark.parametrize("delayed", [False, True], ids=["lost", "late"])
@pytest.mark.parametrize("actors", ["whole", "split", "keyed"])
def test_answers_that_are_lost_and_requests_that_land_late(actors: str, delayed: bool, record: Any) -> None:
    chosen, layout, last = {
        "whole": (WHOLE_ACTORS, WHOLE, writer(9)),
        "split": ({k: v for k, v in SPLIT_ACTORS.items() if k != "r"}, SPLIT, writer(9, partition="z")),
        "keyed": (KEYED_ACTORS, WHOLE, writer(9, key="k")),
    }[actors]
    explored(record, layout, Scenario(actors=chosen, crashes=1, unknown=1, delayed=delayed, recovery=last))


def test_two_requests_that_land_late(record: Any) -> None:
    actors = {"a": writer(1), "b": writer(2)}
    explored(record, WHOLE, Scenario(actors=actors, unknown=2, delayed=True, recovery=writer(9)))


def test_calls_that_fail(record: Any) -> None:
    scenario = Scenario(actors=WHOLE_ACTORS, crashes=1, failures=1, recovery=writer(9))
    explored(record, WHOLE, scenario)


def test_a_lost_answer_and_a_call_that_fails(record: Any) -> None:
    """After a swap that may have landed a failure removes nothing; after a lost one it is no mystery."""
    actors = {"a": writer(1), "b": writer(2)}
    explored(record, WHOLE, Scenario(actors=actors, unknown=1, delayed=True, failures=1, recovery=writer(9)))


def test_writers_that_append_both_succeed_whatever_the_order(record: Any) -> None:
    scenario = Scenario(actors={"a": writer(1, append=True), "b": writer(2, append=True)}, crashes=1)
    report = explored(record, WHOLE, scenario)
    assert report.count(lambda view: not view.crashed and view.raised) == 0


def test_transactions_of_one_dataset_do_not_conflict_with_each_other(record: Any) -> None:
    report = explored(record, WHOLE, Scenario(actors={"a": two_transactions(1), "r": reader()}, crashes=1))
    assert report.count(lambda view: view.raised) == 0


def test_transactions_of_one_dataset_under_one_key_beside_another_writer_of_it(record: Any) -> None:
    actors = {"a": two_transactions(1, key="k"), "b": writer(3, key="k")}
    explored(record, WHOLE, Scenario(actors=actors, crashes=1, recovery=writer(9, key="k")))


@pytest.mark.parametrize("dates", ["fresh", "swept"])
def test_an_id_that_is_committed_is_refused_whoever_commits_beside_it(dates: str, record: Any) -> None:
    initial = _history(5, id="run-1")
    if dates == "swept":
        initial = {path: data for path, data in initial.items() if not path.endswith("intent.json")}
    actors = {"a": writer(1, id="run-1"), "b": writer(2)}
    report = explored(record, WHOLE, Scenario(actors=actors, initial=initial, crashes=1, recovery=writer(9)))
    for ending in report.endings:
        if "a" not in ending.view.crashed:
            assert isinstance(ending.view.raised["a"], TransactionClosedError)


def test_two_writers_under_one_chosen_id_commit_it_once(record: Any) -> None:
    actors = {"a": writer(1, id="run-1"), "b": writer(2, id="run-1")}
    scenario = Scenario(actors=actors, crashes=1, unknown=1, delayed=True, recovery=writer(9))
    report = explored(record, WHOLE, scenario)
    assert report.count(lambda view: len(view.returned) > 1) == 0


def test_a_pointer_that_a_foreign_writer_left_dangling_is_healed_by_the_next_commit(record: Any) -> None:
    initial = {**_history(5), "datasets/d/latest": b"a-foreign-snapshot"}
    # A writer beside a reader with a crash, then two writers: all three at once are too many states.
    beside = {"a": writer(1), "r": reader()}
    explored(record, WHOLE, Scenario(actors=beside, initial=initial, crashes=1, recovery=writer(9)))
    actors = {"a": writer(1), "b": writer(2)}
    explored(record, WHOLE, Scenario(actors=actors, initial=initial, recovery=writer(9)))


def test_a_history_without_a_pointer_is_continued_from_its_head(record: Any) -> None:
    initial = dict(_history(5))
    del initial["datasets/d/latest"]
    scenario = Scenario(actors=WHOLE_ACTORS, initial=initial, crashes=1, recovery=writer(9))
    explored(record, WHOLE, scenario)


def test_four_writers_and_a_reader_on_random_walks(record: Any) -> None:
    actors = {
        "a": writer(1, partition="x"),
        "b": writer(2, partition="y", key="k"),
        "c": writer(3, partition="z", key="k"),
        "d": writer(4, partition="x", retries=2),
        "r": reader(SPLIT),
    }
    recovery = writer(9, partition="w")
    scenario = Scenario(
        actors=actors,
        initial=_history(7, partition="first"),
        crashes=2,
        unknown=2,
        delayed=True,
        failures=1,
        recovery=recovery,
        track_order=True,
    )
    report = walks(scenario, range(100), check=Holds(SPLIT, IDS, ("r",)))
    record("interleavings", report.distinct)


def test_a_walk_happens_again_exactly_from_its_seed() -> None:
    scenario = Scenario(actors=SPLIT_ACTORS, crashes=1, unknown=1, delayed=True)
    assert walk(scenario, 7).steps == walk(scenario, 7).steps


def test_the_plain_way_forks_in_the_same_explorer() -> None:
    actors = {"a": plain_writer("a"), "b": plain_writer("b"), "r": plain_reader}
    with pytest.raises(Violation, match="are both children of"):
        explore(Scenario(actors=actors, initial=plain_history("0")), check=one_line)


def test_a_real_fork_is_named_and_never_papered_over() -> None:
    left, right = _history(5), _history(6)
    initial = {**left, **right}
    del initial["datasets/d/latest"]

    def fails(store: SwapStore) -> tuple[str, ...]:
        try:
            dataset(store).latest()
        except HistoryForkedError as error:
            return error.heads
        return ()

    report = explore(Scenario(actors={"r": fails}, initial=initial))
    assert report.endings[0].view.returned["r"] == (snapshot_id(5), snapshot_id(6))


def _history(number: int, **options: Any) -> dict[str, bytes]:
    """What the store holds after one writer ran alone."""
    report = explore(Scenario(actors={"w": writer(number, **options)}))
    return dict(report.endings[0].view.store)
