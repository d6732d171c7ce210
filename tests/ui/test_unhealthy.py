"""What is damaged is marked with the reason, and hides nothing that is well."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

import lode
from lode.errors import StoreError
from lode.store import MemoryStore
from lode.store.wrappers import CountingStore
from support.ui.browsing import visiting
from support.ui.served import Served
from ui.test_accessible import pale

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

    from lode.store.protocol import ObjectInfo
    from support.ui.browsing import Visitor

DAMAGED = ("forked", "hole", "lost definition", "unreadable")


def _rewritten(store: MemoryStore, path: str, content: bytes) -> None:
    store.delete(path)
    store.put(path, content)


@pytest.fixture(scope="module")
def stage() -> Iterator[Served]:
    """A dataset that is well, and one for each way in which one is not."""
    store = MemoryStore()
    lode.Dataset("fine", store, codec="jsonl").write([{"n": 1}])
    manifest = lode.Dataset("unreadable", store, codec="jsonl")
    _rewritten(store, manifest.chain.paths.manifest(manifest.write([{"n": 1}]).id), b"{")
    hole = lode.Dataset("hole", store, codec="jsonl")
    first, _ = hole.write([{"n": 1}]), hole.write([{"n": 2}])
    store.delete(hole.chain.paths.manifest(first.id))
    lost = lode.Dataset.create("lost definition", store, schema={"n": "int64"})
    digest = lost.latest().manifest.definition
    assert digest is not None
    store.delete(lost.chain.paths.definition(digest))
    _fork(store)
    with Served(store) as served:
        yield served


def _fork(store: MemoryStore) -> None:
    """Two snapshots that follow the same one, and no pointer that says which counts."""
    forked = lode.Dataset("forked", store, codec="jsonl")
    forked.write([{"n": 1}])
    other = MemoryStore()
    for entry in list(store.list("datasets/forked/")):
        other.put(entry.path, store.get(entry.path))
    forked.write([{"n": 2}])
    lode.Dataset("forked", other, codec="jsonl").write([{"n": 3}])
    for entry in list(other.list("datasets/forked/")):
        if not store.exists(entry.path):
            store.put(entry.path, other.get(entry.path))
    for entry in list(store.list("datasets/forked/")):
        if entry.path.endswith("/latest"):
            store.delete(entry.path)


def test_each_damaged_dataset_has_a_reason_and_the_others_none(stage: Served) -> None:
    found = {row["name"]: row.get("error") or row["problem"] for row in stage.ask("overview")["datasets"]}
    assert {name for name, reason in found.items() if reason} == set(DAMAGED)
    assert "manifest.json" in found["unreadable"]
    assert "definition" in found["lost definition"]


def test_the_overview_marks_what_is_damaged_beside_what_is_well(stage: Served, visitor: Visitor) -> None:
    page = visitor.open(stage.url)
    table = page.get_by_role("table", name="Datasets")
    for name in DAMAGED:
        expect(table.get_by_role("row", name=name)).to_contain_text("Damaged")
    expect(table.get_by_role("row", name="fine")).not_to_contain_text("Damaged")
    expect(page.locator(".facts")).to_contain_text(f"Damaged{len(DAMAGED)}")


@pytest.mark.parametrize("name", DAMAGED)
def test_the_page_of_a_damaged_dataset_says_why_and_what_to_do(
    stage: Served, browser: Browser, name: str
) -> None:
    with visiting(browser) as visitor:
        page = visitor.open(f"{stage.url}#/datasets/{name}")
        expect(page.get_by_role("heading", level=1)).to_have_text(name)
        expect(page.locator(".title .badge")).to_have_text("Damaged")
        expect(page.get_by_role("alert").first).to_be_visible()
        expect(page.locator(".command")).to_contain_text("lode verify --root memory://")
        # The browser itself notes answers of 500, which are meant here.
        assert all("500" in complaint for complaint in visitor.complaints)
        visitor.complaints.clear()


def test_reasons_can_be_read_in_both_themes(stage: Served, visitor: Visitor) -> None:
    page = visitor.open(stage.url)
    expect(page.locator("tbody .badge")).to_have_count(len(DAMAGED))
    assert pale(page, "light") == {}
    assert pale(page, "dark") == {}


def test_health_lists_what_is_damaged(stage: Served, visitor: Visitor) -> None:
    page = visitor.open(f"{stage.url}#/health")
    rows = page.get_by_role("table", name="Datasets and volumes with problems").locator("tbody tr")
    expect(rows).to_have_count(len(DAMAGED))
    expect(page.locator(".facts")).to_contain_text(f"{len(DAMAGED)} problems")


def test_a_reason_is_text_and_never_markup(visitor: Visitor) -> None:
    store = MemoryStore()
    name = "<img src=x onerror=alert(1)>"
    bad = lode.Dataset(name, store, codec="jsonl")
    _rewritten(store, bad.chain.paths.manifest(bad.write([{"n": 1}]).id), b"<script>alert(1)</script>")
    with Served(store) as served:
        page = visitor.open(served.url)
        expect(page.get_by_role("row", name=name)).to_contain_text("Damaged")
        assert page.locator("main img, main script").count() == 0


def test_health_says_what_it_found_and_runs_here(lake: Served, visitor: Visitor) -> None:
    found = lake.ask("health")
    assert all(check["ok"] for check in found["checks"])
    assert dict(found["versions"])["lode"] == lode.__version__
    assert {"python", "pyarrow", "obstore"} <= set(dict(found["versions"]))
    assert (found["live"], found["limits"], found["access"]) == (False, [], [])
    page = visitor.open(f"{lake.url}#/health")
    expect(page.locator(".facts")).to_contain_text("No problem found")
    expect(page.locator(".command")).to_contain_text("lode doctor --root memory://")
    expect(page.get_by_role("region", name="Versions")).to_contain_text("pyarrow")


def test_no_page_of_the_console_writes(visitor: Visitor) -> None:
    store = MemoryStore()
    lode.Dataset.create("d", store, schema={"k": "string"}, partition_by=["k"]).write([{"k": "a"}])
    before = {entry.path: store.get(entry.path) for entry in store.list("")}
    counting = CountingStore(store)
    with Served(counting) as served:
        snapshot = lode.open_dataset("d", store).latest().id
        for page in ("", "#/health", "#/datasets/d", f"#/datasets/d/{snapshot}"):
            visitor.open(served.url + page)
    assert {entry.path: store.get(entry.path) for entry in store.list("")} == before
    assert not {"put", "delete", "compare_and_swap", "write"} & set(counting.counts)


class _Down(MemoryStore):
    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        raise StoreError("the bucket does not answer")


def test_a_store_that_is_down_is_a_finding_and_not_an_empty_page(browser: Browser) -> None:
    with Served(_Down()) as served, visiting(browser) as visitor:
        page = visitor.open(f"{served.url}#/health")
        expect(page.get_by_role("row", name="The store answers")).to_contain_text(
            "the bucket does not answer"
        )
        expect(page.locator(".facts")).to_contain_text("1 problem")
        assert all("500" in complaint for complaint in visitor.complaints)
        visitor.complaints.clear()


def test_a_store_that_cannot_swap_is_a_finding() -> None:
    class Plain(MemoryStore):
        compare_and_swap = None  # type: ignore[assignment]  # so that it lacks the capability

    from lode.ui.health import health

    (swap,) = [check for check in health(Plain(), None)["checks"] if "swap" in check["check"]]
    assert not swap["ok"]
    assert "one writer" in swap["detail"]
