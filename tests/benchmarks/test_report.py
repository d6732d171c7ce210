"""The pages are what `report` makes of the committed results, and the aims are about numbers there are."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest
from benchmarks.aim import MISSING, Aim, find
from benchmarks.aims import AIMS
from benchmarks.report import BEGIN, END, aims_table, page, pages, with_table
from benchmarks.results import PARTS, load, save
from benchmarks.table import Cell, Curve, PartResult, Row, Table

RESULTS = load("full")


def result(*tables: Table, part: str = "open") -> dict[str, PartResult]:
    made = PartResult(
        part, f"./run bench {part} --full", "2026-01-01", "a machine", {"lode": "1"}, 9, [*tables]
    )
    return {part: made}


def table(*rows: Row) -> Table:
    return Table(
        "open", "Opening", ["10", "5,000"], [*rows], curves=[Curve("open", "Opening", "commits", "ms")]
    )


@pytest.mark.parametrize("path", pages("full", RESULTS), ids=lambda path: path.parent.name + "/" + path.name)
def test_a_page_is_what_report_makes_of_the_results(path: Path) -> None:
    made = pages("full", RESULTS)[path]
    assert path.read_text() == made, f"{path} is not what ./run bench report makes: run it"


@pytest.mark.parametrize("aim", AIMS, ids=lambda aim: aim.what)
def test_an_aim_is_about_a_number_that_its_part_measures(aim: Aim) -> None:
    assert aim.part in PARTS
    if aim.part not in RESULTS:
        assert aim.judged(RESULTS) == (MISSING, "")
        return
    found = find(RESULTS, aim.part, aim.table)
    if found is None:  # a table that is newer than the last run
        assert aim.judged(RESULTS) == (MISSING, "")
        assert {aim.row, *aim.to} <= set(import_module(f"benchmarks.{aim.part}").CONTENDERS)
        return
    assert set(aim.columns) <= set(found.columns)
    assert {aim.row, *aim.to} <= {row.name for row in found.rows}


@pytest.mark.parametrize("aim", AIMS, ids=lambda aim: aim.what)
def test_an_aim_has_one_bound(aim: Aim) -> None:
    assert (aim.at_most is None) != (aim.at_least is None)


def test_every_figure_of_the_page_has_been_drawn() -> None:
    figures = {curve.figure for each in RESULTS.values() for table in each.tables for curve in table.curves}
    drawn = Path(__file__).parents[2].joinpath("docs", "images").glob("bench-*.svg")
    assert {path.stem.removeprefix("bench-") for path in drawn} == figures


def test_an_aim_takes_the_worst_of_its_columns_and_peers() -> None:
    found = result(
        table(
            Row("Lode", [Cell([4.0]), Cell([9.0])]),
            Row("Delta", [Cell([8.0]), Cell([10.0])]),
            Row("Lance", [Cell([8.0]), Cell([6.0])]),
        )
    )
    aim = Aim("opening", "open", "open", "Lode", ("10", "5,000"), at_most=1, to=("Delta", "Lance"))
    assert aim.judged(found) == ("1.50x", "50 % over")


def test_an_aim_passes_over_a_peer_that_has_no_number() -> None:
    found = result(
        table(
            Row("Lode", [Cell([4.0])]),
            Row("Delta", [Cell([8.0])]),
            Row("Lance", [Cell([1.0])], failed="it broke"),
        )
    )
    aim = Aim("opening", "open", "open", "Lode", ("10",), at_most=1, to=("Delta", "Lance"))
    assert aim.judged(found) == ("0.50x", "met")


def test_an_aim_of_a_contender_that_failed_says_why() -> None:
    found = result(table(Row("Lode", failed="verification failed: rows: expected 2, found 1")))
    aim = Aim("opening", "open", "open", "Lode", ("10",), at_most=1)
    assert aim.judged(found) == ("verification failed: rows: expected 2, found 1", "")


def test_an_aim_can_be_a_row_against_itself_in_another_column() -> None:
    found = result(table(Row("Lode", [Cell([4.0]), Cell([5.0])])))
    aim = Aim("flat", "open", "open", "Lode", ("5,000",), at_most=1.1, to_column="10")
    assert aim.judged(found) == ("1.25x", "13.6 % over")


def test_an_aim_that_wants_more_says_how_much_is_missing() -> None:
    found = result(table(Row("Lode", [Cell([15.0])]), Row("bqemulator", [Cell([1.0])])))
    aim = Aim("rows/s", "open", "open", "Lode", ("10",), at_least=20, to=("bqemulator",))
    assert aim.judged(found) == ("15x", "25 % short")


def test_a_part_that_was_not_measured_says_so() -> None:
    assert "## Spark\n\nNot measured yet.\n" in page("full", {}, "images")


def test_a_plot_is_followed_by_the_command_that_made_it() -> None:
    made = page("full", result(table(Row("Lode", [Cell([4.0]), Cell([5.0])]))), "images")
    assert "![open](images/bench-open.svg)\n\n`./run bench open --full`" in made


def test_the_table_of_the_readme_replaces_only_what_is_between_its_marks() -> None:
    readme = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    assert with_table(readme, "new") == f"before\n{BEGIN}\nnew\n{END}\nafter\n"


def test_the_table_of_the_readme_has_the_short_aims_and_that_of_the_page_all() -> None:
    short = aims_table([aim for aim in AIMS if aim.short], {})
    assert 0 < short.count("\n") < aims_table(AIMS, {}).count("\n")


def test_a_part_measured_again_replaces_itself_and_leaves_the_others(tmp_path: Path) -> None:
    first, second, other = table(Row("Lode", [Cell([1.0])])), table(Row("Lode", [Cell([2.0])])), table()
    for made in (result(first), result(other, part="blob"), result(second)):
        for each in made.values():
            save("full", each, tmp_path)
    assert load("full", tmp_path) == {**result(second), **result(other, part="blob")}
