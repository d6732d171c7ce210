"""Ids as the console shows them are ids as the command line takes them."""

from __future__ import annotations

import lode
from lode.store import MemoryStore
from lode.ui.timeline import MIN_ID_LENGTH, DatasetTimeline, short_id


def test_the_shortest_beginning_that_is_unique_is_shown() -> None:
    ids = ["1700000000000000000-aa", "1700000000000000001-aa", "1700000000000000001-ab", "1800000000000-x"]
    assert [short_id(id, ids) for id in ids] == [
        "1700000000000000000",
        "1700000000000000001-aa",
        "1700000000000000001-ab",
        "1800000000000",
    ]


def test_an_id_that_begins_another_is_shown_whole() -> None:
    ids = ["1700000000000000000", "1700000000000000000-aa"]
    assert short_id(ids[0], ids) == ids[0]


def test_no_shown_id_is_as_short_as_a_number() -> None:
    assert short_id("1700000000000000000-aa", ["1700000000000000000-aa"]) == "1700000000000"
    assert MIN_ID_LENGTH > 12


def test_the_command_line_finds_every_shown_id() -> None:
    store = MemoryStore()
    dataset = lode.Dataset("d", store, codec="jsonl")
    for number in range(20):
        dataset.write([{"n": number}])
    view = DatasetTimeline(store, "d").look()
    shown = {line.id: view.short(line.id) for line in view.lines}
    assert all(dataset.snapshot(short).id == id for id, short in shown.items())


def test_an_id_is_shown_whole_where_the_command_line_cannot_search() -> None:
    store = MemoryStore()
    dataset = lode.Dataset("d", store, codec="jsonl")
    first, second, third = (dataset.write([{"n": number}]) for number in range(3))
    store.delete(dataset.chain.paths.manifest(first.id))
    view = DatasetTimeline(store, "d").look()
    assert view.broken
    assert view.short(third.id) == third.id
    assert view.short(second.id) == second.id
