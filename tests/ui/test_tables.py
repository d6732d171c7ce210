"""Tables in a real browser: they are sorted by a header, and show that they scroll."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

import lode
from lode.store import MemoryStore
from support.ui.browsing import PHONE, visiting
from support.ui.served import Served

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Locator, Page

    from support.ui.browsing import Visitor

SIZES = (9, 100, 20, 9)
BIG = 2**60


@pytest.fixture(scope="module")
def stage() -> Iterator[Served]:
    store = MemoryStore()
    for name, size in zip(("b", "a10", "a9", "c"), SIZES, strict=True):
        lode.Dataset(name, store, codec="jsonl").write([{"n": number} for number in range(size)])
    numbers = lode.Dataset(
        "numbers", store, codec=lode.Parquet({"n": "int64", "x": "float64", "s": "string"})
    )
    numbers.write(
        [
            {"n": BIG + 1, "x": 2.5, "s": "b"},
            {"n": -5, "x": None, "s": "a"},
            {"n": BIG, "x": float("nan"), "s": None},
            {"n": 10, "x": -1.0, "s": "B"},
        ]
    )
    wide = lode.Dataset("wide", store, codec="jsonl")
    wide.write([{f"a column with a long name {number}": "value" * 4 for number in range(12)}])
    with Served(store) as served:
        yield served


def header(page: Page, table: str, name: str) -> Locator:
    return page.get_by_role("table", name=table).get_by_role("columnheader", name=name, exact=True)


def column(page: Page, table: str, place: int) -> list[str]:
    return page.get_by_role("table", name=table).locator(f"tbody tr > :nth-child({place})").all_inner_texts()


def test_a_header_sorts_up_then_down_then_as_it_was(stage: Served, visitor: Visitor) -> None:
    page = visitor.open(stage.url)
    before = column(page, "Datasets", 1)
    rows = header(page, "Datasets", "Rows")
    expect(rows).to_have_attribute("aria-sort", "none")
    rows.get_by_role("button").click()
    expect(rows).to_have_attribute("aria-sort", "ascending")
    assert column(page, "Datasets", 4) == ["1", "4", "9", "9", "20", "100"]
    # Equal values keep the order that they had.
    assert column(page, "Datasets", 1)[2:4] == ["b", "c"]
    rows.get_by_role("button").click()
    expect(rows).to_have_attribute("aria-sort", "descending")
    assert column(page, "Datasets", 1)[:4] == ["a10", "a9", "b", "c"]
    rows.get_by_role("button").click()
    expect(rows).to_have_attribute("aria-sort", "none")
    assert column(page, "Datasets", 1) == before


def test_a_header_is_used_with_the_keyboard_and_keeps_the_focus(stage: Served, visitor: Visitor) -> None:
    page = visitor.open(stage.url)
    name = header(page, "Datasets", "Name")
    name.get_by_role("button").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Space")
    expect(name).to_have_attribute("aria-sort", "descending")
    expect(name.get_by_role("button")).to_be_focused()
    assert column(page, "Datasets", 1) == ["wide", "numbers", "c", "b", "a10", "a9"]


def test_only_one_column_is_sorted_at_a_time(stage: Served, visitor: Visitor) -> None:
    page = visitor.open(stage.url)
    header(page, "Datasets", "Rows").get_by_role("button").click()
    header(page, "Datasets", "Size").get_by_role("button").click()
    expect(page.locator("[aria-sort=ascending], [aria-sort=descending]")).to_have_count(1)


def test_large_numbers_are_sorted_exactly_and_missing_ones_come_last(stage: Served, visitor: Visitor) -> None:
    page = visitor.open(f"{stage.url}#/datasets/numbers")
    table = "A sample of rows"
    header(page, table, "n").get_by_role("button").click()
    assert column(page, table, 1) == ["-5", "10", str(BIG), str(BIG + 1)]
    header(page, table, "x").get_by_role("button").click()
    assert column(page, table, 2)[:2] == ["-1.0", "2.5"]
    header(page, table, "x").get_by_role("button").click()
    assert column(page, table, 2)[:2] == ["2.5", "-1.0"]
    header(page, table, "s").get_by_role("button").click()
    assert column(page, table, 3) == ["a", "b", "B", "null"]


def test_a_paged_table_is_sorted_as_a_whole_and_says_so(lake: Served, visitor: Visitor) -> None:
    page = visitor.open(f"{lake.url}#/datasets/visits")
    table = "Snapshots of visits"
    expect(page.get_by_role("region", name="History")).to_contain_text("1 to 25 of 64, sorted as a whole")
    rows = header(page, table, "Rows")
    rows.get_by_role("button").click()
    expect(rows).to_have_attribute("aria-sort", "descending")
    expect(rows.get_by_role("button")).to_be_focused()
    most = max(snapshot.row_count for snapshot in lode.open_dataset("visits", lake.store).snapshots())
    assert column(page, table, 4)[0] == str(most)
    expect(page.locator("#announcer")).to_have_text("Sorted by Rows, descending, 1 to 25 of 64")


def test_the_partitions_of_a_dataset_are_paged(lake: Served, visitor: Visitor) -> None:
    page = visitor.open(f"{lake.url}#/datasets/visits")
    region = page.get_by_role("region", name="Partitions", exact=True)
    cells = region.get_by_role("rowheader")
    expect(cells).to_have_count(10)
    newest = cells.first.inner_text()
    region.get_by_role("button", name="Next").click()
    expect(cells.first).not_to_have_text(newest)
    header(page, "Partitions of visits", "Partition").get_by_role("button").click()
    expect(region).to_contain_text("1 to 10 of")
    expect(cells.first).not_to_have_text(newest)


def shades(page: Page, name: str) -> list[bytes]:
    """The left and right edges of a table's box, below its header, as pictures."""
    box = page.get_by_role("region", name=name, exact=True)
    box.scroll_into_view_if_needed()
    place = box.bounding_box()
    assert place is not None
    y, edges = place["y"] + 60, (place["x"] + 2, place["x"] + place["width"] - 10)
    return [page.screenshot(clip={"x": x, "y": y, "width": 8, "height": 10}) for x in edges]


def test_a_table_that_goes_on_to_the_side_shows_it(stage: Served, browser: Browser) -> None:
    with visiting(browser, size=PHONE) as visitor:
        page = visitor.open(f"{stage.url}#/datasets/wide")
        table = page.get_by_role("region", name="A sample of rows", exact=True)
        left, right = shades(page, "A sample of rows")
        assert left != right
        table.evaluate("box => { box.scrollLeft = box.scrollWidth }")
        assert shades(page, "A sample of rows")[1] != right
        table.evaluate("box => { box.scrollLeft = 40 }")
        assert shades(page, "A sample of rows")[0] != left
