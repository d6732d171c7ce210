"""A sweeper that thinks everything is old, beside running writers: no visible snapshot ever loses a file."""

from __future__ import annotations

from typing import Any

import pytest

from lode.errors import TransactionClosedError
from lode.testing.explore import Scenario, explore
from lode.testing.protocol import SPLIT, WHOLE, Holds, reader, snapshot_id, sweeper, writer

IDS = {"a": snapshot_id(1), "b": snapshot_id(2)}

SCENARIOS: dict[str, tuple[Any, dict[str, Any], dict[str, Any]]] = {
    "a crash": (WHOLE, {"a": writer(1), "b": writer(2)}, {"crashes": 1, "recovery": writer(9)}),
    "a second try": (WHOLE, {"a": writer(1), "b": writer(2, warm=True)}, {"crashes": 1}),
    "a rebase": (SPLIT, {"a": writer(1, partition="x"), "b": writer(2, partition="y")}, {}),
    "files after intents": (
        WHOLE,
        {"a": writer(1, beside=True), "b": writer(2, beside=True)},
        {"crashes": 1, "recovery": writer(9)},
    ),
    "a file after its intent and a late request": (
        WHOLE,
        {"a": writer(1, beside=True)},
        {"unknown": 2, "delayed": True, "recovery": writer(9)},
    ),
    "a late request": (WHOLE, {"a": writer(1)}, {"unknown": 2, "delayed": True, "recovery": writer(9)}),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_sweeping_beside_writers_never_takes_a_file_that_is_or_can_be_committed(
    name: str, record_property: Any
) -> None:
    layout, writers, troubles = SCENARIOS[name]
    scenario = Scenario(actors={**writers, "s": sweeper(layout)}, **troubles)
    report = explore(scenario, check=Holds(layout, IDS))
    record_property("interleavings", report.interleavings)


def test_an_id_that_was_committed_and_swept_is_never_committed_again(record_property: Any) -> None:
    initial = dict(explore(Scenario(actors={"w": writer(5, id="run-1")})).endings[0].view.store)
    initial = dict(explore(Scenario(actors={"w": writer(6)}, initial=initial)).endings[0].view.store)
    actors = {"a": writer(1, id="run-1"), "s": sweeper()}
    scenario = Scenario(actors=actors, initial=initial, crashes=1, recovery=writer(9))
    report = explore(scenario, check=Holds(WHOLE, IDS))
    assert report.count(lambda view: "a" in view.returned) == 0
    record_property("interleavings", report.interleavings)


def test_two_writers_under_one_chosen_id_beside_a_sweeper_commit_it_once(record_property: Any) -> None:
    actors = {"a": writer(1, id="run-1"), "b": writer(2, id="run-1"), "s": sweeper()}
    report = explore(Scenario(actors=actors), check=Holds(WHOLE, IDS))
    assert report.count(lambda view: {"a", "b"} <= view.returned.keys()) == 0
    record_property("interleavings", report.interleavings)


def test_a_reader_beside_a_sweeper_finds_what_it_would_find_alone(record_property: Any) -> None:
    scenario = Scenario(actors={"a": writer(1), "r": reader(), "s": sweeper()}, track_order=True)
    report = explore(scenario, check=Holds(WHOLE, IDS, ("r",)))
    record_property("interleavings", report.interleavings)


def test_a_writer_whose_files_were_swept_is_refused_and_told_so() -> None:
    report = explore(Scenario(actors={"a": writer(1), "s": sweeper()}))
    swept = [ending.view.raised["a"] for ending in report.endings if "a" in ending.view.raised]
    assert swept
    assert all(isinstance(error, TransactionClosedError) for error in swept)
