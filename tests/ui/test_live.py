"""The console of a running server: write streams as they move, metrics, and a token where one is due."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.request import Request, urlopen

import pytest
from playwright.sync_api import expect
from starlette.middleware import Middleware
from starlette.responses import JSONResponse

from lode.ingest.api.auth import Tokens
from lode.ingest.core.strategies import StreamType
from lode.store import MemoryStore
from lode.testing.plugin import LodeServer
from lode.ui import is_public
from lode.ui.health import Doctor, health
from support.ingest.engines import PLAIN, append, engine_on
from support.ingest.engines import lake as tables
from support.ui.browsing import NARROWEST, visiting
from support.ui.lake import fill_lake
from support.ui.served import Served
from ui.test_accessible import UNNAMED

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser
    from starlette.types import ASGIApp, Receive, Scope, Send

    from lode.ingest.core.engine import Engine
    from support.ui.browsing import Visitor


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = engine_on(tables(), tmp_path)
    yield engine
    engine.close()


@pytest.fixture
def live(engine: Engine) -> Iterator[Served]:
    with Served(engine.store, engine=engine) as served:
        yield served


def test_the_api_tells_the_streams_of_the_engine(engine: Engine, live: Served) -> None:
    stream = engine.create_stream(PLAIN, StreamType.PENDING)
    append(stream, range(5))
    found = live.ask("streams")
    assert found["total"] == 1
    (found_stream,) = found["streams"]
    assert (
        found_stream["id"],
        found_stream["type"],
        found_stream["state"],
        found_stream["rows"],
        found_stream["visible"],
    ) == (
        stream.id,
        "PENDING",
        "open",
        5,
        0,
    )
    assert (found_stream["table"], found_stream["dataset"]) == ("p.d.plain", "p.d.plain")


def test_without_a_server_there_are_no_streams(fresh: Served, visitor: Visitor) -> None:
    found = fresh.ask("streams")
    assert (found["live"], found["streams"]) == (False, [])
    assert fresh.ask("metrics")["metrics"] == []
    page = visitor.open(fresh.url)
    expect(page.locator("#about")).to_contain_text("read only")
    expect(page.get_by_role("link", name="Streams")).to_have_count(0)


def test_streams_move_while_one_looks(engine: Engine, live: Served, alone: Visitor) -> None:
    stream = engine.create_stream(PLAIN, StreamType.PENDING)
    append(stream, range(5))
    alone.page.clock.install()
    page = alone.open(live.url)
    page.get_by_role("link", name="Streams").click()
    expect(page.get_by_role("button", name=f"Copy the name of stream {stream.id}")).to_be_visible()
    expect(page.get_by_role("heading", level=1)).to_have_text("Streams")
    row = page.get_by_role("table", name="Write streams").locator("tbody tr")
    expect(row).to_have_count(1)
    expect(row).to_contain_text("open")
    append(stream, range(5, 305))
    page.clock.run_for(2_000)
    expect(row).to_contain_text("305")
    expect(row).to_contain_text("rows/s")
    engine.finalize(stream.name)
    page.clock.run_for(2_000)
    expect(row).to_contain_text("finalized")
    expect(page.locator("#announcer")).to_have_text("1 stream: 0 open, 1 finalized, 0 committed")
    engine.batch_commit(PLAIN, [stream.name])
    page.clock.run_for(2_000)
    expect(row).to_contain_text("committed")
    page.get_by_role("link", name="p.d.plain").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("p.d.plain")
    # One that created the dataset with the stream, one with its rows.
    expect(page.get_by_role("option")).to_have_count(2)


def test_streams_fit_on_a_narrow_screen(engine: Engine, live: Served, browser: Browser) -> None:
    engine.create_stream(PLAIN, StreamType.PENDING)
    with visiting(browser, size=NARROWEST) as visitor:
        page = visitor.open(f"{live.url}#/streams")
        expect(page.get_by_role("link", name="Streams")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= NARROWEST["width"]
        assert page.evaluate(UNNAMED) == []


def test_updates_can_be_paused(engine: Engine, live: Served, alone: Visitor) -> None:
    alone.page.clock.install()
    page = alone.open(f"{live.url}#/streams")
    page.get_by_role("button", name="Pause updates").click()
    engine.create_stream(PLAIN, StreamType.BUFFERED)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.clock.run_for(20_000)
    assert asked == []
    expect(page.get_by_text("No write stream is open.")).to_be_visible()
    page.get_by_role("button", name="Pause updates").click()
    page.clock.run_for(2_000)
    expect(page.get_by_role("cell", name="buffered")).to_be_visible()


def test_health_shows_what_the_server_counts(engine: Engine, live: Served, visitor: Visitor) -> None:
    engine.create_stream(PLAIN, StreamType.PENDING)
    page = visitor.open(f"{live.url}#/health")
    metrics = page.get_by_role("table", name="What the server counts")
    expect(metrics.get_by_role("row", name="lode_staged_bytes")).to_have_count(1)
    names = {sample["name"] for sample in live.ask("metrics")["metrics"]}
    assert {"lode_write_streams_active", "lode_commit_seconds_count"} <= names


def test_health_shows_the_limits_of_the_server(engine: Engine, live: Served, visitor: Visitor) -> None:
    found = {limit["name"]: limit["value"] for limit in live.ask("health")["limits"]}
    assert found["request_bytes"] == engine.settings.request_bytes
    assert found["streams"] == engine.settings.streams
    page = visitor.open(f"{live.url}#/health")
    limits = page.get_by_role("table", name="Limits of the server")
    expect(limits.get_by_role("row", name="stream_ttl")).to_contain_text("3d")
    expect(limits.get_by_role("row", name="request_bytes")).to_contain_text("20MiB")
    expect(page.get_by_role("region", name="Access")).to_contain_text("Tokennot required")


def test_health_of_a_server_has_the_findings_of_the_doctor(live: Served, visitor: Visitor) -> None:
    page = visitor.open(f"{live.url}#/health")
    checks = page.get_by_role("table", name="Checks of the store and the server")
    promise = "Of racing swaps exactly one wins"
    expect(checks.get_by_role("row", name=promise)).to_contain_text("ok")
    expect(page.get_by_role("region", name="Concurrent writers")).to_have_count(0)
    first, second = (live.ask("health")["checks"] for _ in range(2))
    probed = [check["detail"] for check in first if check["check"] == promise]
    assert probed == [check["detail"] for check in second if check["check"] == promise]  # once


def test_a_broken_promise_of_the_store_is_a_problem_of_the_server(engine: Engine) -> None:
    class Careless(MemoryStore):
        def compare_and_swap(self, path: str, expected: bytes | None, replacement: bytes) -> bool:
            super().compare_and_swap(path, self.get(path) if self.exists(path) else None, replacement)
            return True

    store = Careless()
    found = health(store, engine, Doctor(store))
    broken = [check["check"] for check in found["checks"] if not check["ok"]]
    assert "A pointer is swapped only from what it is" in broken
    assert not list(store.list(".lode-doctor-"))


def test_health_says_whether_the_server_is_ready_and_gives_no_secret_away(tmp_path: Path) -> None:
    secret = frozenset({"sesame"})
    server = LodeServer(tmp_path / "lake", tokens=secret)
    try:
        asked = Request(f"{server.http_url}/ui/api/health", headers={"authorization": "Bearer sesame"})
        with urlopen(asked, timeout=120) as response:
            text = response.read().decode()
    finally:
        server.stop()
    found = json.loads(text)
    assert {"check": "The server takes writes", "ok": True, "detail": "ready"} in found["checks"]
    assert ["Token", "required"] in found["access"]
    assert "sesame" not in text


class _Asking:
    """Asks for a token for everything but the page itself, as the server is meant to."""

    def __init__(self, app: ASGIApp, tokens: Tokens) -> None:
        self._app = app
        self._tokens = tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = dict(scope["headers"]).get(b"authorization")
        if is_public(scope["path"]) or self._tokens.allow(given):
            await self._app(scope, receive, send)
            return
        refusal = JSONResponse({"error": {"message": "The request presents no valid token."}}, 401)
        await refusal(scope, receive, send)


def test_who_is_asked_for_a_token_can_give_it(browser: Browser) -> None:
    store = MemoryStore()
    fill_lake(store)
    asking = Middleware(_Asking, tokens=Tokens(frozenset({"sesame"})))
    with Served(store, middleware=[asking]) as served, visiting(browser) as visitor:
        page = visitor.open(f"{served.url}#/datasets/visits")
        expect(page.get_by_role("heading", level=1)).to_have_text("A token, please")
        page.get_by_label("Token").fill("wrong")
        page.get_by_role("button", name="Go on").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("A token, please")
        page.get_by_label("Token").fill("sesame")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_have_text("visits")
        page.wait_for_selector("[role=option]:not(.coming)")
        assert "sesame" not in page.url
        # The browser itself notes the answers of 401, which were meant.
        assert all("401" in complaint for complaint in visitor.complaints)
        visitor.complaints.clear()
