"""The lake and the pages of the pictures, the same whenever and wherever they are made."""

from __future__ import annotations

from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, NamedTuple

from playwright.sync_api import expect

import lode
from lode.ingest.core.strategies import StreamType
from lode.store import MemoryStore
from support.ingest.engines import PLAIN, append, engine_on
from support.ingest.engines import lake as tables
from support.ui.browsing import visiting
from support.ui.lake import Clock, fill_lake, runtime_of
from support.ui.pipelines import fill_pipelines
from support.ui.served import Served

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

    from support.ui.browsing import Theme

NOW: Final = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
WIDE: Final = 1200
NARROW: Final = 390


class Shot(NamedTuple):
    """One picture: a page, its size and its theme."""

    name: str
    page: str
    width: int
    height: int
    theme: Theme = "light"
    # A part that is brought to the top of the picture.
    top: str | None = None
    # A page of a server, which has streams and limits.
    live: bool = False
    # A page of a lake with pipelines.
    flows: bool = False


SHOTS: Final = (
    Shot("overview", "#/", WIDE, 800),
    Shot("dataset", "#/datasets/visits", WIDE, 1120),
    Shot("rows", "#/datasets/visits", WIDE, 1060, top="Columns"),
    Shot("dark", "#/datasets/visits", WIDE, 1120, theme="dark"),
    Shot("snapshot", "#/datasets/orders/{orders}", WIDE, 1100),
    Shot("health", "#/health", WIDE, 1000),
    Shot("pipelines", "#/pipelines", WIDE, 1160, flows=True),
    Shot("streams", "#/streams", WIDE, 560, live=True),
    Shot("server", "#/health", WIDE, 1400, live=True),
    Shot("phone", "#/datasets/visits", NARROW, 1500),
    Shot("phone-dark", "#/", NARROW, 1000, theme="dark"),
)


class NamedStore(MemoryStore):
    """A store in memory under the name of a bucket."""

    @property
    def url(self) -> str:
        return "s3://acme-lake/production"


def fill_scene(store: MemoryStore) -> None:
    """The lake of the tests, a dataset with a full definition, and one that is damaged."""
    fill_lake(store, until=NOW)
    clock = Clock(NOW - timedelta(hours=9))
    orders = lode.Dataset.create(
        "orders",
        store,
        schema={
            "id": "int64!",
            "day": "string!",
            "customer": "string!",
            "amount": "float64",
            "placed": "timestamp",
            "items": "list<string>",
        },
        partition_by=["day"],
        primary_key=["id"],
        sort_by=["id"],
        timestamp_column="placed",
        description="Orders of the web shop, loaded every night from the order service.",
        properties={"owner": "sales team", "retention": "7 years"},
        checksum="sha256",
        writer="nightly-load",
        runtime=runtime_of(clock),
    )
    for night in range(3):
        clock.pass_by(hours=2)
        orders.write(
            [_order(night, number) for number in range(40)],
            {"source": "order-service", "job": {"name": "nightly-load", "attempt": 1}},
            idempotency_key=("nightly-load", f"2026-11-{13 + night}"),
        )
    lode.Dataset("legacy.events", store, codec="jsonl", runtime=runtime_of(clock)).write([{"n": 1}])
    _damage(store, "datasets/legacy.events/")


def _order(night: int, number: int) -> dict[str, object]:
    placed = NOW - timedelta(days=3 - night, minutes=17 * number)
    return {
        "id": 81_000 + night * 40 + number,
        "day": placed.date().isoformat(),
        "customer": ("Ada Lovelace", "Grace Hopper", "Katherine Johnson", "Ida Rhodes")[number % 4],
        "amount": None if number % 11 == 7 else round(12.5 + number * 7.35, 2),
        "placed": placed,
        "items": ["tea", "cup"][: 1 + number % 2],
    }


def _damage(store: MemoryStore, prefix: str) -> None:
    for entry in list(store.list(prefix)):
        if entry.path.endswith("manifest.json"):
            store.delete(entry.path)
            store.put(entry.path, b'{"schema_name": "lode-mani')


class Scene(NamedTuple):
    """What the pictures show: a store, a server with write streams, and a store with pipelines."""

    store: Served
    server: Served
    pipelines: Served


@contextmanager
def scene() -> Iterator[Scene]:
    store = NamedStore()
    fill_scene(store)
    flows = NamedStore()
    fill_pipelines(flows, until=NOW)
    with TemporaryDirectory() as folder, closing(engine_on(tables(), Path(folder))) as engine:
        for number, kind in enumerate((StreamType.PENDING, StreamType.COMMITTED, StreamType.BUFFERED), 1):
            append(engine.create_stream(PLAIN, kind), range(number * 1_000))
        with (
            Served(store) as served,
            Served(engine.store, engine=engine) as server,
            Served(flows) as pipelines,
        ):
            yield Scene(served, server, pipelines)


def take(browser: Browser, scene: Scene, shot: Shot, *, css: str = "") -> bytes:
    """The picture as PNG, after the rules of ``css`` were added to the page."""
    with visiting(
        browser, size={"width": shot.width, "height": shot.height}, theme=shot.theme, bypass_csp=bool(css)
    ) as visitor:
        served = scene.server if shot.live else scene.pipelines if shot.flows else scene.store
        visitor.page.clock.set_fixed_time(NOW)
        orders = lode.open_dataset("orders", scene.store.store).latest().id
        page = visitor.open(served.url + shot.page.format(orders=orders))
        if css:
            page.add_style_tag(content=css)
        _settle(page, shot)
        return page.screenshot(animations="disabled", caret="hide")


def _settle(page: Page, shot: Shot) -> None:
    """Wait until all that is drawn later has been drawn."""
    expect(page.locator(".coming, .loading, .plot:empty")).to_have_count(0)
    if shot.top is not None:
        page.get_by_role("region", name=shot.top, exact=True).first.evaluate(
            "section => scrollTo(0, section.getBoundingClientRect().top + scrollY - 24)"
        )
    page.evaluate("document.fonts.ready")
