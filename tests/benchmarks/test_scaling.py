"""Exponents are right, what must be flat is flat, and the page says what was measured."""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING

import pytest
from benchmarks.scaling.axis import EXPONENT, counted, measured
from benchmarks.scaling.crowd import simulate
from benchmarks.scaling.files import FilesAxis
from benchmarks.scaling.fit import exponent, upper_half
from benchmarks.scaling.history import HistoryAxis, extend
from benchmarks.scaling.outlook import extended
from benchmarks.scaling.page import render, shape
from benchmarks.scaling.partitions import PartitionsAxis
from benchmarks.scaling.rivals import RivalsAxis
from benchmarks.scaling.virtual import VirtualTime
from benchmarks.table import Cell, PartResult, Row, Table

import lode
from lode.store.memory import MemoryStore
from lode.store.wrappers import CountingStore

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 2.0, -1.0])
def test_the_exponent_of_a_power_is_the_power(power: float) -> None:
    assert exponent([(size, 7 * size**power) for size in (10.0, 100.0, 1000.0)]) == pytest.approx(power)


def test_a_logarithm_has_an_exponent_that_is_nearly_flat() -> None:
    points = [(size, log(size)) for size in (1e2, 1e4, 1e6, 1e8)]
    found = exponent(upper_half(points))
    assert found is not None
    assert 0 < found < 0.1


def test_a_fixed_cost_hides_growth_only_from_the_lower_half() -> None:
    points = [(size, 1000 + size) for size in (1.0, 10.0, 1e5, 1e6)]
    whole, upper = exponent(points), exponent(upper_half(points))
    assert whole is not None
    assert upper is not None
    assert whole < 0.6
    assert upper == pytest.approx(1.0, abs=0.01)


def test_there_is_no_exponent_through_one_point_or_through_a_cost_of_nothing() -> None:
    assert exponent([(10.0, 5.0)]) is None
    assert exponent([(10.0, 5.0), (10.0, 6.0)]) is None
    assert exponent([(10.0, 0.0), (100.0, 5.0), (1000.0, 5.0)]) is None


def test_an_exponent_in_a_word() -> None:
    assert [shape(value) for value in (-1, 0, 0.5, 1, 1.5, 2)] == [
        "falls",
        "flat",
        "less than linear",
        "linear",
        "more than linear",
        "quadratic",
    ]


def growing(power: float) -> Table:
    """A cost of 7 * size ** power, measured up to 1,000."""
    sizes = (10, 100, 1000)
    cells = [Cell([7.0 * size**power]) for size in sizes]
    return Table("t", "T", [*(f"{size:,}" for size in sizes), EXPONENT], [Row("r", [*cells, Cell([power])])])


def test_a_line_is_carried_on_to_a_size_nobody_measured() -> None:
    assert extended(growing(1.0), "r", 5000) == pytest.approx(35_000)
    assert extended(growing(0.0), "r", 5000) == pytest.approx(7)
    assert extended(growing(0.0), "r", 5000, power=1.0) == pytest.approx(35)
    assert extended(growing(1.0), "another", 5000) is None


def value(table: Table, row: str, column: str) -> float:
    found = table.value(table.row(row), column)
    assert found is not None, f"{row} was not measured at {column}"
    return found


def test_a_commit_and_a_look_at_the_head_cost_the_same_after_10_and_200_commits(tmp_path: Path) -> None:
    table = measured(HistoryAxis(tmp_path), (10, 200), rounds=1)
    for row in ("commit, calls", "latest, calls"):
        assert value(table, row, "10") == value(table, row, "200")
    assert value(table, "commit, calls", "200") == 4
    # Only the number of the sequence is longer, once in the intent and once in the manifest.
    assert value(table, "commit writes, bytes", "200") - value(table, "commit writes, bytes", "10") < 8


def test_the_calls_of_a_commit_with_its_segments_do_not_grow(tmp_path: Path) -> None:
    table = measured(HistoryAxis(tmp_path), (32, 512), rounds=1)
    row = "commit with its share of segments, calls"
    assert value(table, row, "512") <= value(table, row, "32") + 0.1


def test_the_reads_of_a_plan_grow_with_the_digits_of_the_length_alone() -> None:
    store = CountingStore(MemoryStore())
    extend(store, 15)
    most_of_one_digit, _, _ = counted(store, lambda: plan(store))
    extend(store, 255 - 15)
    most_of_two_digits, _, _ = counted(store, lambda: plan(store))
    # The pointer, up to 15 manifests, and up to three segments of each size.
    assert most_of_one_digit == 1 + 15
    assert most_of_two_digits == 1 + 15 + 3 + 3
    extend(store, 1)
    assert counted(store, lambda: plan(store))[0] == 3


def plan(store: lode.Store) -> None:
    lode.Dataset("history", store, codec=lode.Parquet({"day": "string!", "n": "int64"})).plan()


def test_a_first_commit_is_four_calls_behind_its_files_however_many_there_are(tmp_path: Path) -> None:
    table = measured(FilesAxis(tmp_path), (1, 50), rounds=1)
    assert [value(table, "commit, calls", size) for size in ("1", "50")] == [4, 4]
    assert [value(table, "plan, calls", size) for size in ("1", "50")] == [2, 2]
    one, fifty = (value(table, "verify without checksums, calls", size) for size in ("1", "50"))
    assert fifty - one == 49


def test_a_partition_costs_two_calls_to_write_and_nothing_to_leave_out(tmp_path: Path) -> None:
    table = measured(PartitionsAxis(tmp_path), (1, 20), rounds=1)
    assert value(table, "write, calls", "20") - value(table, "write, calls", "1") == 2 * 19
    assert value(table, "scan of one partition, calls", "20") == value(
        table, "scan of one partition, calls", "1"
    )


def test_the_calls_of_a_rebase_do_not_grow_with_the_rivals(tmp_path: Path) -> None:
    table = measured(RivalsAxis(tmp_path), (1, 16, 300), rounds=1)
    alone = value(table, "rebased commit, calls", "1")
    # Up to 15 manifests, three segments of 16 and of 64, and one of 256.
    assert value(table, "rebased commit, calls", "16") - alone <= 15
    assert value(table, "rebased commit, calls", "300") - alone <= 15 + 3 + 3 + 1


def test_virtual_time_passes_for_all_at_once_and_in_order() -> None:
    time = VirtualTime()
    seen: list[tuple[str, float]] = []

    def wait(name: str, seconds: float) -> None:
        time.sleep(seconds)
        seen.append((name, time.now))

    time.run([lambda: wait("late", 3600.0), lambda: wait("early", 60.0)])
    assert seen == [("early", 60.0), ("late", 3600.0)]


def test_a_seed_replays_a_crowd() -> None:
    assert simulate(6, warm=3, watched=9, seed=4) == simulate(6, warm=3, watched=9, seed=4)


def test_many_writers_commit_together_with_about_as_many_requests_for_each() -> None:
    few, many = (simulate(writers, warm=100, watched=150) for writers in (4, 32))
    assert many.reads_per_commit + many.writes_per_commit < 14
    assert many.commits_per_second > 4 * few.commits_per_second


def test_the_page_says_from_where_to_where_each_cost_goes() -> None:
    made = render(
        PartResult("scaling", "./run bench scaling", "2026-01-01", "a machine", {}, 0.0, [growing(1.0)])
    )
    assert "| **T** | r | 70 at 10 | 7,000 at 1,000 | 1.00 | linear |" in made
