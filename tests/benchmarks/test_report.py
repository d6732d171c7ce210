"""The pages are what `report` makes of the committed results, and the aims are about numbers there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from benchmarks.aim import MISSING, Aim, find
from benchmarks.aims import AIMS
from benchmarks.command import main
from benchmarks.markdown import filled
from benchmarks.minute import SECTIONS, ten
from benchmarks.minute import page as minute_page
from benchmarks.releases import Release, ReleaseError, keep
from benchmarks.releases import load as load_releases
from benchmarks.releases import table as release_table
from benchmarks.report import BEGIN, END, figures, page, pages
from benchmarks.results import PARTS, load, save
from benchmarks.table import Cell, Curve, PartResult, Row, Table

ROOT = Path(__file__).parents[2]
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
    found = find(RESULTS, aim.part, aim.table)
    if found is None or found.row(aim.row) is None:
        assert aim.judged(RESULTS) == (MISSING, "")
        assert names_of(aim) <= names_in_code(aim.part)
        return
    assert set(aim.columns) <= set(found.columns)
    assert {aim.row, *aim.to} <= {row.name for row in found.rows}


def names_of(aim: Aim) -> set[str]:
    """The rows of an aim that has not been measured yet. A number in them is put in when it is measured."""
    return {re.sub(r"\d[\d,]*", "#", name) for name in (aim.row, *aim.to)}


def names_in_code(part: str) -> set[str]:
    """Every text in the code of a part, and of what it shares, with # for what is put in."""
    places = [f"{part}.py", f"{part}/*.py", "lifecycle/*.py"]
    sources = [path.read_text() for place in places for path in (ROOT / "benchmarks").glob(place)]
    texts = [text for source in sources for text in re.findall(r'"([^"\n]*)"', source)]
    return {re.sub(r"\d[\d,]*|\{[^}]*\}", "#", text) for text in texts}


def test_every_aim_has_words_of_its_own() -> None:
    assert len({aim.what for aim in AIMS}) == len(AIMS)


def test_the_readme_has_ten_results() -> None:
    assert sum(aim.short for aim in AIMS) == 10


@pytest.mark.parametrize("aim", AIMS, ids=lambda aim: aim.what)
def test_an_aim_has_one_bound(aim: Aim) -> None:
    assert (aim.at_most is None) != (aim.at_least is None)


def test_every_figure_of_the_page_has_been_drawn() -> None:
    drawn = (ROOT / "docs" / "images").glob("bench-*.svg")
    assert {path.stem.removeprefix("bench-") for path in drawn} == set(figures("full", RESULTS))


@pytest.mark.parametrize("size", ["full", "quick"])
def test_pages_and_plots_can_be_made_when_nothing_has_been_measured(size: str) -> None:
    made = pages(size, {})
    assert all(MISSING in text.lower() or "not measured" in text for text in made.values())
    assert [len(panels) for panels in figures(size, {}).values()] == (
        [2] * len(SECTIONS) if size == "full" else []
    )


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


def test_a_page_is_filled_only_between_its_marks() -> None:
    text = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    assert filled(text, BEGIN, END, "new") == f"before\n{BEGIN}\n\nnew\n\n{END}\nafter\n"


def test_a_page_without_its_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="to fill: put both lines back"):
        filled("nothing to see", BEGIN, END, "new")


def opened(lode: float) -> dict[str, PartResult]:
    """Results in which Lode opens a table in so many milliseconds, and Delta in ten."""
    depths = ["10", "500", "2,000", "5,000"]
    rows = [Row(name, [Cell([value])] * 4) for name, value in (("Lode", lode), ("Delta", 10.0))]
    return result(Table("open", "Opening", depths, rows))


OPEN = "open and plan, at any depth, against every peer"


def test_the_ten_results_say_what_is_missed_and_what_was_not_measured() -> None:
    text = ten(opened(20.0))
    assert f"| {OPEN} | 2x | at most 1x of Delta, Iceberg, Lance | 100 % over |" in text
    assert f"0 are met, 1 are missed and {len(AIMS) - 1} are not measured yet." in text


def test_a_missed_aim_is_on_the_page_with_its_number() -> None:
    assert (
        f"## Missed aims\n\n|  | measured |  | why |\n| --- | --- | --- | --- |\n| {OPEN} | 2x |"
        in minute_page(opened(20.0))
    )
    assert "None of what has been measured." in minute_page(opened(5.0))


def test_an_aim_whose_run_failed_is_missed_and_says_why() -> None:
    found = result(
        Table("open", "Opening", ["10"], [Row("Lode", failed="failed: OSError: the disk is full")])
    )
    assert f"| {OPEN} | failed: OSError: the disk is full |  | - |" in minute_page(found)
    assert f"0 are met, 1 are missed and {len(AIMS) - 1} are not measured yet" in ten(found)


def test_a_count_far_over_its_aim_is_said_in_times() -> None:
    aim = Aim("requests", "open", "open", "Lode", ("10",), at_most=12)
    assert aim.judged(result(table(Row("Lode", [Cell([4157.0])])))) == ("4,157", "346 times the aim")


def test_a_release_shows_what_it_measured_beside_the_newest() -> None:
    lines = release_table(opened(20.0), [Release("0.1", {"open": "2025-01-01"}, {OPEN: 0.5})]).splitlines()
    assert lines[2] == "|  | the aim | 0.1 | Unreleased |"
    assert lines[4] == f"| **met** |  | 1 of {len(AIMS)} | 0 of {len(AIMS)} |"
    assert f"| {OPEN} | at most 1x of Delta, Iceberg, Lance | 0.50x | 2x, missed |" in lines
    assert (
        "| bulk write | at most 1.05x of pyarrow, two files in two threads | not measured | not measured |"
        in lines
    )


def test_a_part_that_was_not_measured_since_the_release_has_no_number_beside_it(tmp_path: Path) -> None:
    keep("0.1", opened(5.0), tmp_path)
    text = release_table(opened(5.0), load_releases(tmp_path))
    assert f"| {OPEN} | at most 1x of Delta, Iceberg, Lance | 0.50x | not measured |" in text
    assert text.startswith("Measured on: 0.1: 2026-01-01; Unreleased: not measured.")


def test_a_release_is_kept_once_and_releases_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for name in ("0.10", "0.9"):
        keep(name, opened(5.0), tmp_path)
    assert [(each.name, each.aims) for each in load_releases(tmp_path)] == [
        ("0.9", {OPEN: 0.5}),
        ("0.10", {OPEN: 0.5}),
    ]
    with pytest.raises(ReleaseError, match=r"the results of 0\.9 are kept already: remove "):
        keep("0.9", opened(5.0), tmp_path)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["report", "--keep", "next"],
            "a release is numbers with dots between them, such as 0.2, and not 'next'",
        ),
        (["open", "--keep", "0.2"], "--keep goes with report: ./run bench report --keep 0.2"),
    ],
)
def test_a_release_that_cannot_be_kept_is_refused(arguments: list[str], sentence: str) -> None:
    with pytest.raises(SystemExit, match=f"^{sentence}$"):
        main(arguments)


def test_every_number_that_a_release_kept_belongs_to_an_aim() -> None:
    kept = {what for release in load_releases() for what in release.aims}
    assert kept <= {aim.what for aim in AIMS}


def test_a_part_measured_again_replaces_itself_and_leaves_the_others(tmp_path: Path) -> None:
    first, second, other = table(Row("Lode", [Cell([1.0])])), table(Row("Lode", [Cell([2.0])])), table()
    for made in (result(first), result(other, part="blob"), result(second)):
        for each in made.values():
            save("full", each, tmp_path)
    assert load("full", tmp_path) == {**result(second), **result(other, part="blob")}
