"""Random walks find what the explorer finds, and a seed is all it takes to see it again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lode.testing import plain
from lode.testing.explore import Scenario, Violation, replay
from lode.testing.walk import walk, walks

if TYPE_CHECKING:
    from lode.testing.explore import View
    from lode.testing.sim import SwapStore

FIVE = Scenario(
    actors={name: plain.writer(name, retries=1) for name in "abcde"},
    initial=plain.history("0"),
    crashes=2,
    unknown=2,
    failures=1,
    delayed=True,
)


def test_one_seed_gives_one_trace() -> None:
    for seed in range(50):
        first = walk(FIVE, seed)
        assert walk(FIVE, seed) == first
        assert replay(FIVE, first.steps) == first


def test_different_seeds_go_different_ways() -> None:
    report = walks(FIVE, range(200))
    assert report.walks == 200
    assert report.distinct > 190
    assert report.crashes > 50


def test_every_kind_of_step_is_taken() -> None:
    at_once = Scenario(actors=FIVE.actors, initial=FIVE.initial, crashes=2, unknown=2, recovery=plain.reader)
    events = {step.event.name for seed in range(200) for step in walk(FIVE, seed).steps}
    events |= {step.event.name for seed in range(200) for step in walk(at_once, seed).steps}
    assert events == {
        "ANSWERED",
        "FAILED",
        "LOST",
        "UNHEARD",
        "DELAYED",
        "LANDED",
        "CRASHED",
        "CRASHED_AFTER",
        "CRASHED_DURING",
    }


def test_a_walk_finds_the_fork_of_the_plain_protocol_and_names_its_seed() -> None:
    with pytest.raises(Violation, match=r"^seed \d+: . and . are both children of .") as found:
        walks(FIVE, range(1000), check=plain.one_line)
    seed = found.value.seed
    assert seed is not None
    with pytest.raises(Violation) as again:
        walk(FIVE, seed, check=plain.one_line)
    assert again.value.trace == found.value.trace
    assert str(again.value) == str(found.value)


def test_a_walk_leaves_a_right_program_alone() -> None:
    def add_one(store: SwapStore) -> None:
        while True:
            value = store.get("n")
            if store.compare_and_swap("n", value, b"%d" % (int(value) + 1)):
                return

    def counted(view: View) -> bool:
        return int(view.store["n"]) >= len(view.returned)

    actors = dict.fromkeys("abcde", add_one)
    scenario = Scenario(actors=actors, initial={"n": b"0"}, crashes=2, recovery=add_one)
    report = walks(scenario, range(100), check=counted, check_end=counted)
    assert str(report).startswith("100 walks, ")
