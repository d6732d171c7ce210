"""A browser, and a page that fails the test if it complains or asks anybody else for anything."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias
from urllib.parse import urlsplit

from playwright.sync_api import sync_playwright

from support.ui.chromium import MISSING, find_chromium

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, ViewportSize
    from playwright.sync_api import Request as Asked

Theme: TypeAlias = Literal["light", "dark"]

FLAGS: Final = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # Pages of one context share a process: it takes longer to start than to show most pages.
    "--process-per-site",
    # Names that a page elsewhere could point at this machine.
    "--host-resolver-rules=MAP *.example 127.0.0.1",
)
# A busy machine may need longer than the thirty seconds that are usual.
MAX_MILLISECONDS: Final = 120_000
DESK: Final[ViewportSize] = {"width": 1440, "height": 900}
PHONE: Final[ViewportSize] = {"width": 390, "height": 844}
NARROWEST: Final[ViewportSize] = {"width": 360, "height": 740}


@contextmanager
def launched() -> Iterator[Browser]:
    chromium = find_chromium()
    assert chromium, MISSING
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


class Visitor:
    """A page, and what went wrong on it."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.origins: set[str] = set()
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", self._asked)

    def open(self, url: str) -> Page:
        """Go to a page of the console, and wait until it is there."""
        self.page.goto(url)
        self.page.wait_for_selector("h1")
        return self.page

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def _asked(self, request: Asked) -> None:
        parts = urlsplit(request.url)
        self.origins.add(f"{parts.scheme}://{parts.netloc}")


@contextmanager
def visiting(
    browser: Browser, *, size: ViewportSize = DESK, theme: Theme = "light", **options: Any
) -> Iterator[Visitor]:
    """A visit in a context of its own, which ends without complaints and within one origin."""
    with (
        opened_context(browser, size=size, theme=theme, **options) as context,
        visiting_in(context) as visitor,
    ):
        yield visitor


@contextmanager
def opened_context(
    browser: Browser, *, size: ViewportSize = DESK, theme: Theme = "light", **options: Any
) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport=size, color_scheme=theme, reduced_motion="reduce", **options)
    try:
        context.set_default_timeout(MAX_MILLISECONDS)
        yield context
    finally:
        context.close()


@contextmanager
def visiting_in(context: BrowserContext) -> Iterator[Visitor]:
    """A visit with a page of its own, of which the context remembers nothing."""
    visitor = Visitor(context.new_page())
    yield visitor
    assert visitor.complaints == []
    assert len(visitor.origins) <= 1, visitor.origins
    forget = context.new_cdp_session(visitor.page)
    for origin in visitor.origins:
        forget.send("Storage.clearDataForOrigin", {"origin": origin, "storageTypes": "all"})
    visitor.page.close()
