"""Ten thousand snapshots: the page comes at once and stays quick."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from support.ui.browsing import visiting
from support.ui.served import Served
from ui.conftest import MANY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

    from lode.store import MemoryStore
    from support.ui.browsing import Visitor

# Of processor time of the server, which is in this process. What is promised is one second altogether.
MAX_SECONDS = 3.0


@pytest.fixture
def long(long_store: MemoryStore) -> Iterator[Served]:
    """A server that has not looked at the history before."""
    with Served(long_store) as served:
        yield served


def test_the_first_look_at_a_long_history_is_quick(long: Served, visitor: Visitor) -> None:
    began = time.process_time()
    page = visitor.open(f"{long.url}#/datasets/many")
    page.wait_for_selector("[role=option]:not(.coming)")
    assert time.process_time() - began < MAX_SECONDS
    expect(page.get_by_role("listbox")).to_have_attribute("data-commits", str(MANY))
    expect(page.locator(".details")).to_contain_text(f"Snapshot {MANY:,}")


def test_only_the_commits_in_sight_are_drawn(long: Served, visitor: Visitor) -> None:
    page = visitor.open(f"{long.url}#/datasets/many")
    page.wait_for_selector("[role=option]:not(.coming)")
    assert page.locator("[role=option]").count() < 100
    assert page.locator("*").count() < 2_500


def test_the_whole_line_can_be_walked_without_waiting(long: Served, visitor: Visitor) -> None:
    page = visitor.open(f"{long.url}#/datasets/many")
    page.wait_for_selector("[role=option]:not(.coming)")
    page.get_by_role("listbox").focus()
    began = time.process_time()
    page.keyboard.press("Home")
    expect(page.locator(".details")).to_contain_text("Snapshot 1")
    for _ in range(50):
        page.keyboard.press("PageDown")
    expect(page.locator(".details")).to_contain_text("Snapshot 501")
    page.keyboard.press("End")
    expect(page.locator(".details")).to_contain_text(f"Snapshot {MANY:,}")
    assert time.process_time() - began < MAX_SECONDS


def test_the_small_picture_of_it_all_leads_anywhere(long: Served, visitor: Visitor) -> None:
    page = visitor.open(f"{long.url}#/datasets/many")
    page.wait_for_selector("[role=option]:not(.coming)")
    picture = page.locator(".map").bounding_box()
    assert picture is not None
    page.mouse.click(picture["x"] + picture["width"] / 2, picture["y"] + 10)
    expect(page.locator(f"[role=option][data-sequence='{MANY // 2}']:not(.coming)")).to_be_attached()


def test_answers_stay_small(long: Served) -> None:
    for path in ("overview", "datasets/many", "datasets/many/history?limit=100000"):
        _, _, body = long.fetch(f"{long.url}api/{path}")
        assert len(body) < 150_000, path


def test_a_look_at_a_long_history_does_not_hold_up_others(long: Served, browser: Browser) -> None:
    with visiting(browser) as one, visiting(browser) as other:
        one.page.goto(f"{long.url}#/datasets/many")
        other.open(f"{long.url}#/datasets/many")
        one.page.wait_for_selector("h1")
        expect(other.page.get_by_role("heading", level=1)).to_have_text("many")
