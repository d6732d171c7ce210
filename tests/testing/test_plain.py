"""The plain protocol forks, and a timeline shows it."""

from __future__ import annotations

from textwrap import dedent

import pytest

from lode.testing import plain
from lode.testing.actor import run_alone
from lode.testing.explore import Scenario, Violation, explore, replay
from lode.testing.timeline import render

RACE = Scenario(actors={"a": plain.writer("a"), "b": plain.writer("b")}, initial=plain.history("0"))


def test_the_plain_protocol_is_fine_for_one_writer_after_another() -> None:
    store = run_alone(plain.writer("b"), run_alone(plain.writer("a"), plain.history("0")).store).store
    assert run_alone(plain.reader, store).value == "b"
    assert plain.forks(store) == {}


def test_two_writers_fork_the_plain_protocol_without_any_crash() -> None:
    with pytest.raises(Violation, match="a and b are both children of 0") as found:
        explore(RACE, check=plain.one_line)
    trace = found.value.trace
    assert replay(RACE, trace.steps) == trace
    assert plain.forks(trace.steps[-1].store) == {"0": ["a", "b"]}
    assert render(trace, show=plain.show) == dedent(
        """\
          │ a                                     │ b                                     │ latest
        ──┼───────────────────────────────────────┼───────────────────────────────────────┼───────
          │                                       │                                       │ 0
        1 │ get latest = 0                        │                                       │ 0
        2 │ exists snapshots/0/manifest.json ✓    │                                       │ 0
        3 │ swap latest 0 → a ✓                   │                                       │ a
        4 │                                       │ get latest = a                        │ a
        5 │                                       │ exists snapshots/a/manifest.json ✗    │ a
        6 │                                       │ list snapshots/* = 1 object           │ a
        7 │ put snapshots/a/manifest.json (a ← 0) │                                       │ a
        8 │                                       │ swap latest a → b ✓                   │ b
        9 │                                       │ put snapshots/b/manifest.json (b ← 0) │ b
        ──┼───────────────────────────────────────┼───────────────────────────────────────┼───────
          │ returned 'a'                          │ returned 'b'                          │"""
    )


def test_how_often_the_plain_protocol_forks() -> None:
    two = explore(RACE)
    assert (two.interleavings, two.states) == (54, 55)
    assert two.count(lambda view: plain.forks(view.store)) == 6
    three = explore(Scenario(actors={name: plain.writer(name) for name in "abc"}, initial=plain.history("0")))
    assert three.interleavings == 13_188
    assert three.count(lambda view: plain.forks(view.store)) == 5_193


def test_the_largest_id_is_not_the_head_after_a_retry_on_a_new_parent() -> None:
    # a lost to b and tried again on top of it; d died between its swap and its manifest.
    store = plain.history("0", "b", "a", pointer="d")
    with pytest.raises(Violation, match="after recovery: a and c are both children of b"):
        explore(
            Scenario(actors={}, initial=store, recovery=plain.writer("c")),
            check=plain.one_line,
        )


def test_a_retry_makes_the_plain_protocol_reach_that_history_by_itself() -> None:
    actors = {"a": plain.writer("a", retries=1), "b": plain.writer("b")}
    report = explore(Scenario(actors=actors, initial=plain.history("0")))
    wanted = plain.history("0", "b", "a")
    assert report.count(lambda view: dict(view.store) == wanted) > 0
