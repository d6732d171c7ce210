"""Everybody can use the page: by keyboard, by ear, in both themes."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from support.ui.browsing import visiting
from ui.test_page import PAGES, address

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from support.ui.browsing import Theme, Visitor
    from support.ui.served import Served

# Text and the colour behind it, through whatever is transparent in between.
TEXTS = """() => {
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (!/rgba\\(.*, 0(\\.\\d+)?\\)|color\\(/.test(colour)) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.textContent.trim();
    const element = walker.currentNode.parentElement;
    if (!text || !element.checkVisibility()) continue;
    if (element.closest(".visually-hidden, .skip, :disabled")) continue;
    const style = getComputedStyle(element);
    const isSvg = element instanceof SVGElement;
    found.push([text, isSvg ? style.fill : style.color, behind(isSvg ? element.closest("div") : element)]);
  }
  return found;
}"""

HEADINGS = "[...document.querySelectorAll('h1,h2,h3,h4')].map(one => Number(one.tagName[1]))"
UNNAMED = """() => [...document.querySelectorAll("a, button, input, table, [tabindex='0'], [role=img]")]
  .filter(one => one.checkVisibility())
  .filter(one => !(one.getAttribute("aria-label") || one.textContent.trim() || one.labels?.length))
  .map(one => one.outerHTML)"""


def luminance(colour: str) -> float:
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_contrast_is_computed_as_the_guidelines_say() -> None:
    assert contrast("rgb(0, 0, 0)", "rgb(255, 255, 255)") == pytest.approx(21)
    assert contrast("rgb(118, 118, 118)", "rgb(255, 255, 255)") == pytest.approx(4.54, abs=0.01)


def pale(page: Page, theme: Theme) -> dict[str, tuple[str, str]]:
    """The texts that are hard to read in a theme, with their colours."""
    page.emulate_media(color_scheme=theme)
    expect(page.locator("html")).to_have_attribute("data-theme", theme)
    texts: list[tuple[str, str, str]] = page.evaluate(TEXTS)
    assert len(texts) > 10
    return {text: (ink, paper) for text, ink, paper in texts if contrast(ink, paper) < 4.5}


@pytest.mark.parametrize("where", PAGES)
def test_all_text_can_be_read_in_both_themes(lake: Served, visitor: Visitor, where: str) -> None:
    page = visitor.open(address(lake, where))
    expect(page.locator(".coming, .plot:empty")).to_have_count(0)
    assert pale(page, "light") == {}
    assert pale(page, "dark") == {}


@pytest.mark.parametrize("where", PAGES)
def test_a_page_has_landmarks_one_title_and_names_for_everything(
    lake: Served, visitor: Visitor, where: str
) -> None:
    page = visitor.open(address(lake, where))
    for landmark in ("banner", "main", "contentinfo"):
        expect(page.get_by_role(landmark)).to_have_count(1)
    expect(page.get_by_role("navigation", name="Console")).to_have_count(1)
    levels: list[int] = page.evaluate(HEADINGS)
    assert levels.count(1) == 1
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert page.evaluate(UNNAMED) == []
    for table in page.locator("table").all():
        assert table.locator("caption").count() == 1
        assert table.locator("thead th[scope=col]").count() > 0
    ids: list[str] = page.evaluate("[...document.querySelectorAll('[id]')].map(one => one.id)")
    assert len(ids) == len(set(ids))
    assert page.get_attribute("html", "lang") == "en"
    assert page.title().endswith("Lode")


def test_the_first_tab_skips_to_the_content(lake: Served, visitor: Visitor) -> None:
    page = visitor.open(f"{lake.url}#/datasets/visits")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("main")).to_be_focused()
    assert page.url.endswith("#/datasets/visits")


def test_everything_can_be_reached_by_keyboard_and_shows_its_focus(lake: Served, visitor: Visitor) -> None:
    page = visitor.open(lake.url)
    reached: list[str] = []
    for _ in range(24):
        page.keyboard.press("Tab")
        focused: dict[str, Any] = page.evaluate(
            """() => ({ text: document.activeElement.textContent.trim() || document.activeElement.id,
                        outline: getComputedStyle(document.activeElement).outlineStyle })"""
        )
        assert focused["outline"] != "none", focused
        reached.append(focused["text"])
        if focused["text"] == "visits":
            break
    assert reached[:5] == ["Skip to the content", "Lode", "Overview", "Health", "theme-system"]
    assert reached[5] == "filter"
    page.keyboard.press("Enter")
    title = page.get_by_role("heading", level=1)
    expect(title).to_have_text("visits")
    expect(title).to_be_focused()


def test_the_chain_is_walked_with_arrow_keys_and_opened_with_enter(lake: Served, visitor: Visitor) -> None:
    page = visitor.open(f"{lake.url}#/datasets/visits")
    page.wait_for_selector("[role=option]:not(.coming)")
    chain = page.get_by_role("listbox", name="64 commits of visits")
    chain.focus()
    assert _active(page) == "64"
    for key, expected in (
        ("ArrowLeft", "63"),
        ("ArrowLeft", "62"),
        ("ArrowRight", "63"),
        ("PageUp", "53"),
        ("Home", "1"),
        ("ArrowLeft", "1"),
        ("End", "64"),
        ("ArrowRight", "64"),
        ("PageUp", "54"),
    ):
        page.keyboard.press(key)
        assert _active(page) == expected, key
    expect(page.locator(".details")).to_contain_text("Snapshot 54")
    expect(page.locator(".details")).to_contain_text("rebased behind 1 other")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Snapshot 54")


def _active(page: Page) -> str | None:
    """The commit that has the focus; it is drawn, and it is the one that is selected."""
    named = page.get_by_role("listbox").get_attribute("aria-activedescendant")
    active = page.locator(f"[id='{named}']")
    expect(active).to_have_attribute("aria-selected", "true")
    expect(page.locator("[role=option][aria-selected=true]")).to_have_count(1)
    return active.get_attribute("data-sequence")


def test_each_chart_is_a_table_too(lake: Served, visitor: Visitor) -> None:
    page = visitor.open(f"{lake.url}#/datasets/visits")
    expect(page.get_by_role("img", name="Rows: from 40 at")).to_have_count(1)
    page.get_by_text("Rows as a table").click()
    rows = page.get_by_role("table", name="Rows", exact=True).locator("tbody tr")
    assert 2 < rows.count() <= 24
    expect(rows.last).to_contain_text("4,542")


def test_the_chain_can_be_used_where_colours_are_forced(lake: Served, browser: Browser) -> None:
    with visiting(browser, forced_colors="active") as visitor:
        page = visitor.open(f"{lake.url}#/datasets/visits")
        page.wait_for_selector("[role=option]:not(.coming)")
        assert page.get_by_role("option").count() > 10
