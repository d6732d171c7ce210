"""A browser, and the lakes to look at, for all tests of the console."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

import lode
from lode.store import MemoryStore
from support.ui.browsing import MAX_MILLISECONDS, Visitor, launched, opened_context, visiting, visiting_in
from support.ui.chromium import MISSING, find_chromium
from support.ui.lake import fill_lake
from support.ui.served import Served

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, BrowserContext

MANY = 10_000

expect.set_options(timeout=MAX_MILLISECONDS)


# Playwright keeps an event loop running in this thread until it stops. Tests of other folders need their own.
@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    # CI installs Chromium; there, its absence is a failure.
    if find_chromium() is None and "CI" not in os.environ:
        pytest.skip(MISSING)
    with launched() as browser:
        yield browser


@pytest.fixture(scope="package")
def context(browser: Browser, lake: Served) -> Iterator[BrowserContext]:
    """For all visits. A page that stays keeps the process for the others."""
    with opened_context(browser) as context:
        context.new_page().goto(f"{lake.url}api/status")
        yield context


@pytest.fixture
def visitor(context: BrowserContext) -> Iterator[Visitor]:
    with visiting_in(context) as visitor:
        yield visitor


@pytest.fixture
def alone(browser: Browser) -> Iterator[Visitor]:
    """A visitor with a context of its own, for a test that changes the clock."""
    with visiting(browser) as visitor:
        yield visitor


@pytest.fixture(scope="session")
def lake() -> Iterator[Served]:
    """The lake that nobody writes to any more."""
    store = MemoryStore()
    fill_lake(store)
    with Served(store) as served:
        yield served


@pytest.fixture
def fresh() -> Iterator[Served]:
    """An empty lake, for a test that writes to it."""
    with Served(MemoryStore()) as served:
        yield served


@pytest.fixture(scope="session")
def long_store() -> MemoryStore:
    """A dataset with a history of ten thousand real commits."""
    store = MemoryStore()
    dataset = lode.Dataset("many", store, codec="jsonl")
    for number in range(MANY):
        dataset.write([{"n": number}])
    segment = dataset.chain.paths.segment(16, MANY)
    deadline = time.monotonic() + 300
    while not store.exists(segment):  # the last one, written off the commit's way
        assert time.monotonic() < deadline, "the history was not compacted"
        time.sleep(0.05)
    return store
