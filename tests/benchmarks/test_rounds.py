"""Rounds, medians, spreads, and what becomes of a contender that fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from benchmarks.markdown import markdown, spread
from benchmarks.measure import in_child
from benchmarks.rounds import (
    ChildError,
    MissingError,
    Outcome,
    Sample,
    VerificationError,
    about_slow,
    in_rounds,
    require,
    row_of,
    verify,
)
from benchmarks.table import Cell, Row, Table

if TYPE_CHECKING:
    from collections.abc import Iterator


def breaks() -> Sample:
    raise OSError("the disk\nis full")


def doubts() -> Sample:
    verify(399, 400, "rows")
    return [1.0]


def test_every_contender_has_its_turn_before_the_next_round() -> None:
    turns: list[str] = []

    def work(name: str) -> Sample:
        turns.append(name)
        return [float(len(turns))]

    outcomes = in_rounds({"a": lambda: work("a"), "b": lambda: work("b")}, 2, label="a test")
    assert turns == ["a", "b", "a", "b"]
    assert outcomes["b"].samples == [[2.0], [4.0]]


def test_a_round_to_warm_up_does_not_count() -> None:
    samples: Iterator[Sample] = iter([[100.0], [1.0], [3.0]])
    outcomes = in_rounds({"a": lambda: next(samples)}, 2, label="a test", warm_up=True)
    assert outcomes["a"].samples == [[1.0], [3.0]]


def test_a_peer_that_is_slow_is_measured_once_and_the_table_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.rounds.SLOW", -1.0)
    outcomes = in_rounds(
        {"Lode": lambda: [1.0], "peer": lambda: [9.0]}, 3, label="a test", may_be_slow=("peer",)
    )
    assert [len(each.samples) for each in outcomes.values()] == [3, 1]
    assert about_slow(outcomes, 3) == [
        "Measured once, because a round took more than -1 s, set-up included: peer."
    ]


def test_a_peer_that_could_be_slow_and_is_not_is_measured_as_often_as_the_others() -> None:
    outcomes = in_rounds({"peer": lambda: [9.0]}, 3, label="a test", may_be_slow=("peer",))
    assert len(outcomes["peer"].samples) == 3
    assert about_slow(outcomes, 3) == []


def test_a_contender_that_fails_is_a_row_with_its_reason_and_the_others_go_on() -> None:
    outcomes = in_rounds({"broken": breaks, "whole": lambda: [2.0]}, 2, label="a test")
    assert row_of("broken", outcomes["broken"]) == Row("broken", failed="failed: OSError: the disk is full")
    assert row_of("whole", outcomes["whole"]) == Row("whole", [Cell([2.0, 2.0])])


def test_a_contender_that_failed_is_not_asked_again() -> None:
    asked = 0

    def work() -> Sample:
        nonlocal asked
        asked += 1
        raise OSError("no")

    in_rounds({"broken": work}, 3, label="a test")
    assert asked == 1


def test_a_failed_verification_is_said_instead_of_the_number() -> None:
    outcomes = in_rounds({"Lode": doubts}, 1, label="a test")
    text = markdown(Table("t", "A test", ["seconds", "files"], [row_of("Lode", outcomes["Lode"])]))
    assert "| Lode | verification failed: rows: expected 400, found 399 |  |" in text


def test_the_numbers_of_rounds_before_a_failure_are_kept_but_not_shown() -> None:
    row = row_of("Lode", Outcome([[7.5]], "failed: OSError: gone"))
    table = Table("t", "A test", ["seconds"], [row])
    assert row.cells == [Cell([7.5])]
    assert table.value(row, "seconds") is None
    assert "7.5" not in markdown(table)


def test_a_package_that_is_not_there_is_named_with_the_remedy() -> None:
    def work() -> Sample:
        require("no_such_package")
        return [1.0]

    outcomes = in_rounds({"Peer": work}, 1, label="a test")
    assert outcomes["Peer"].failed == (
        "not measured: the package no_such_package is not installed; ./run bench installs it"
    )


def test_a_verification_that_fails_in_a_child_fails_here() -> None:
    with pytest.raises(VerificationError, match="rows: expected 400, found 1"):
        in_child(verify, found=1, expected=400, what="rows")


def test_an_error_in_a_child_comes_back_in_its_words() -> None:
    with pytest.raises(ChildError, match="AttributeError: 'str' object has no attribute 'value'"):
        in_child(spread, cell="nothing")


def test_a_package_that_a_child_misses_is_missing_here() -> None:
    with pytest.raises(MissingError, match="no_such_package is not installed"):
        in_child(require, package="no_such_package")


@pytest.mark.parametrize(
    ("samples", "text"),
    [([], "-"), ([2.0], "2"), ([3.0, 1.0, 2.5], "2.50 [1-3]"), ([1500.0, 1200.0], "1,350 [1,200-1,500]")],
)
def test_a_cell_says_the_median_and_from_where_to_where_it_spreads(samples: list[float], text: str) -> None:
    assert spread(Cell(samples)) == text


def test_a_ratio_is_that_of_the_medians() -> None:
    rows = [Row("floor", [Cell([1.0, 2.0, 9.0])]), Row("Lode", [Cell([4.0, 3.0, 5.0])], "floor")]
    assert "| Lode | 4 [3-5] (2x) |" in markdown(Table("t", "A test", ["ms"], rows, ratios=["ms"]))


def test_there_is_no_ratio_to_a_row_that_failed() -> None:
    rows = [Row("floor", [Cell([1.0])], failed="failed: it broke"), Row("Lode", [Cell([4.0])], "floor")]
    assert "| Lode | 4 |" in markdown(Table("t", "A test", ["ms"], rows, ratios=["ms"]))
