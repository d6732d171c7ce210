"""A web page elsewhere, in a real browser: whatever it tries, it stores nothing and reads nothing."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from lode.testing.plugin import LodeServer
from support.ui.browsing import visiting

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

INSERT = '{"rows": [{"json": {"id": 1}}]}'
TABLE = "/bigquery/v2/projects/p/datasets/d/tables/t"
# Each gives what the page could read of the answer: nothing, whether it was refused or is opaque.
FETCH = """async ([url, options]) => {
    try {
        const answer = await fetch(url, options);
        return answer.ok ? await answer.text() : `${answer.status}`;
    } catch (error) {
        return "refused";
    }
}"""
FORM = """async ([url, kind, name]) => {
    const frame = document.createElement("iframe");
    frame.name = kind;
    document.body.append(frame);
    const form = document.createElement("form");
    Object.assign(form, {action: url, method: "POST", enctype: kind, target: kind});
    const field = document.createElement("input");
    Object.assign(field, {name, value: ""});
    form.append(field);
    document.body.append(form);
    const loaded = new Promise((done) => { frame.onload = done; });
    form.submit();
    await loaded;
}"""
BEACON = "([url, body]) => navigator.sendBeacon(url, body)"


class _Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>Elsewhere</title><body>")

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[int]:
    """The port of a server with a page of somebody else's."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[LodeServer]:
    server = LodeServer(tmp_path / "lake")
    server.create_table("p.d.t", [{"name": "id", "type": "INT64"}])
    yield server
    assert server.rows("p.d.t").num_rows == 0
    client: Any = server.bigquery_client("p")
    assert client.get_table("p.d.t").description is None
    client.close()
    server.stop()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context()
    yield context.new_page()
    context.close()


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "localhost"])
def test_a_page_of_another_origin_stores_and_reads_nothing(
    page: Page, lake: LodeServer, elsewhere: int, host: str
) -> None:
    page.goto(f"http://{host}:{elsewhere}/")
    url = f"{lake.http_url}{TABLE}"
    simple = {"method": "POST", "mode": "no-cors", "body": INSERT}
    plain = {**simple, "headers": {"content-type": "text/plain"}}
    typed = {"method": "POST", "body": INSERT, "headers": {"content-type": "application/json"}}
    for options in (simple, plain, {"method": "POST", "body": INSERT}, typed):
        assert page.evaluate(FETCH, [f"{url}/insertAll", options]) in ("0", "refused")
    for method in ("DELETE", "PATCH"):
        assert page.evaluate(FETCH, [url, {"method": method}]) == "refused"
    for options in ({}, {"mode": "no-cors"}):
        assert page.evaluate(FETCH, [url, options]) in ("0", "refused")
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        page.evaluate(FORM, [f"{url}/insertAll", kind, INSERT[:-1] + ', "x": "'])
    with page.expect_event("requestfailed"):
        page.evaluate(BEACON, [f"{url}/insertAll", INSERT])


def test_a_page_whose_own_name_points_at_the_server_stores_and_reads_nothing(
    page: Page, lake: LodeServer
) -> None:
    port = lake.http_url.rpartition(":")[2]
    answer = page.goto(f"http://evil.example:{port}/ui/")
    assert answer is not None
    assert answer.status == 403
    typed = {"method": "POST", "body": INSERT, "headers": {"content-type": "application/json"}}
    for path in (TABLE, f"{TABLE}/data", "/bigquery/v2/projects", "/ui/api/overview", "/metrics", "/streams"):
        assert page.evaluate(FETCH, [path, {}]) == "403"
    assert page.evaluate(FETCH, [f"{TABLE}/insertAll", typed]) == "403"
    assert page.evaluate(FETCH, [TABLE, {"method": "DELETE"}]) == "403"


def test_the_console_itself_works(browser: Browser, lake: LodeServer) -> None:
    with visiting(browser) as visitor:
        assert visitor.open(f"{lake.http_url}/ui/").title() == "Lode"
