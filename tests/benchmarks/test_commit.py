"""What writers left in a table is held against what they were told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from benchmarks.commit.writers import ROWS, Race, Work, check, compete, numbers
from benchmarks.peers import contender
from benchmarks.peers.contender import Place
from benchmarks.rounds import ChildError, VerificationError

if TYPE_CHECKING:
    from pathlib import Path

NEVER = float("inf")


def rows_of(*commits: tuple[str, int], count: int = ROWS) -> pa.Table:
    parts = [part for part, _ in commits for _ in range(count)]
    turns = [number for _, number in commits for _ in range(count)]
    return pa.table({"part": parts, "commit": turns})


def writer(part: str, *ends: float) -> Work:
    return Work(part, [(0.0, end) for end in ends])


def test_a_table_with_every_acknowledged_commit_once_is_accepted() -> None:
    check(rows_of(("p00", 0), ("p00", 1), ("p01", 0)), [writer("p00", 1.0, 2.0), writer("p01", 1.0)])


def test_an_acknowledged_commit_that_is_not_there_is_lost() -> None:
    with pytest.raises(VerificationError, match="1,000 rows LOST, 0 DOUBLED"):
        check(rows_of(("p00", 0)), [writer("p00", 1.0, 2.0)])


def test_a_commit_that_is_there_twice_is_doubled() -> None:
    with pytest.raises(VerificationError, match="0 rows LOST, 1,000 DOUBLED"):
        check(rows_of(("p00", 0), ("p00", 0)), [writer("p00", 1.0)])


@pytest.mark.parametrize("found", [[("p00", 0)], [("p00", 0), ("p00", 1)]])
def test_a_commit_that_nobody_acknowledged_may_be_there_or_not(found: list[tuple[str, int]]) -> None:
    check(rows_of(*found), [writer("p00", 1.0, NEVER)])


def test_half_a_commit_is_lost_even_if_nobody_acknowledged_it() -> None:
    with pytest.raises(VerificationError, match="LOST"):
        check(rows_of(("p00", 0), count=ROWS // 2), [writer("p00", NEVER)])


def test_rows_that_no_writer_wrote_are_found() -> None:
    with pytest.raises(VerificationError, match="1,000 that no writer wrote"):
        check(rows_of(("p07", 0)), [])


def test_a_commit_that_never_came_counts_as_slow_and_not_as_a_commit() -> None:
    rate, commits, conflicts, _, slowest, fairness = numbers([writer("p00", 1.0, 4.0), writer("p01", NEVER)])
    assert (rate, commits, conflicts, slowest, fairness) == (0.5, 2, 0, 4.0, 0.5)


@pytest.mark.parametrize("name", ["floor", "Lode"])
def test_what_a_race_wrote_is_found_in_the_table(name: str, tmp_path: Path) -> None:
    each, place = contender(name), Place(str(tmp_path / "table"), str(tmp_path), partition="part")
    each.create(place)
    work = compete(each, place, Race(writers=2, commits=3, cap=60.0))
    check(each.read(place), work)
    assert [len(writer.done) for writer in work] == [3, 3]
    assert each.history(place) == 6


def test_a_writer_that_cannot_open_its_table_ends_the_race_with_its_words(tmp_path: Path) -> None:
    nowhere = Place("nowhere://table", str(tmp_path), partition="part")
    with pytest.raises(ChildError, match="nowhere"):
        compete(contender("Lode"), nowhere, Race(writers=2, commits=1, cap=1.0))
