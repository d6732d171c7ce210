"""What the page offers to copy reaches the clipboard, and everybody learns that it did."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

import lode
from support.ui.browsing import visiting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

    from support.ui.browsing import Visitor
    from support.ui.served import Served

CLIPBOARD = "navigator.clipboard.readText()"


@pytest.fixture
def copying(browser: Browser) -> Iterator[Visitor]:
    with visiting(browser, permissions=["clipboard-read", "clipboard-write"]) as visitor:
        yield visitor


def test_an_id_is_shown_by_its_beginning_and_copied_whole(lake: Served, copying: Visitor) -> None:
    latest = lode.open_dataset("visits", lake.store).latest().id
    page = copying.open(f"{lake.url}#/datasets/visits")
    row = page.get_by_role("table", name="Snapshots of visits").get_by_role("row").nth(1)
    shown = row.get_by_role("rowheader").get_by_role("link").inner_text()
    assert len(shown) < len(latest)
    assert latest.startswith(shown)
    row.get_by_role("button", name="Copy the id of snapshot 64").click()
    expect(page.locator("#announcer")).to_have_text("Copied the id of snapshot 64")
    assert page.evaluate(CLIPBOARD) == latest


def test_the_lines_of_the_chosen_language_are_copied(lake: Served, copying: Visitor) -> None:
    page = copying.open(f"{lake.url}#/datasets/visits")
    page.get_by_role("tab", name="CLI").click()
    copy = page.get_by_role("button", name="Copy the CLI lines")
    copy.click()
    expect(copy).to_have_text("Copied")
    expect(page.locator("#announcer")).to_have_text("Copied the CLI lines")
    text: str = page.evaluate(CLIPBOARD)
    assert text == page.get_by_role("tabpanel").locator("pre").text_content()
    assert text.splitlines()[0] == "lode log --root memory:// --number 10 visits"
    expect(copy).to_have_text("Copy")


def test_the_languages_are_tabs_that_arrow_keys_move_between(lake: Served, visitor: Visitor) -> None:
    page = visitor.open(f"{lake.url}#/datasets/visits")
    tabs = page.get_by_role("tablist", name="Language").get_by_role("tab")
    expect(tabs).to_have_text(["Python", "CLI", "SQL", "Spark"])
    tabs.first.focus()
    page.keyboard.press("ArrowLeft")
    _is_chosen(page, "Spark")
    page.keyboard.press("ArrowRight")
    _is_chosen(page, "Python")
    page.keyboard.press("End")
    _is_chosen(page, "Spark")
    page.keyboard.press("Home")
    _is_chosen(page, "Python")
    expect(page.get_by_role("tabpanel", name="Python")).to_contain_text("import lode")


def _is_chosen(page: Page, name: str) -> None:
    expect(page.get_by_role("tab", name=name)).to_be_focused()
    expect(page.locator("[role=tab][aria-selected=true]")).to_have_text(name)
    expect(page.locator("[role=tab][tabindex='0']")).to_have_text(name)


def test_a_page_without_the_clipboard_copies_in_the_old_way(lake: Served, copying: Visitor) -> None:
    """As on plain HTTP from another machine, where browsers have no clipboard for scripts."""
    copying.page.add_init_script(
        "const real = navigator.clipboard;"
        "Object.defineProperty(navigator, 'clipboard', { configurable: true, get: () => undefined });"
        "globalThis.readBack = () => real.readText();"
    )
    page = copying.open(f"{lake.url}#/datasets/visits")
    copy = page.get_by_role("button", name="Copy the Python lines")
    copy.click()
    expect(copy).to_have_text("Copied")
    expect(copy).to_be_focused()
    assert "lode.open_dataset('visits'" in page.evaluate("readBack()")


def test_a_copy_that_is_refused_is_not_called_a_copy(lake: Served, visitor: Visitor) -> None:
    visitor.page.add_init_script(
        "Object.defineProperty(navigator, 'clipboard', { get: () => undefined });"
        "document.execCommand = () => false;"
    )
    page = visitor.open(f"{lake.url}#/datasets/visits")
    copy = page.get_by_role("button", name="Copy the Python lines")
    copy.click()
    expect(copy).to_have_text("Not copied")
    expect(page.locator("#announcer")).to_contain_text("did not copy")
