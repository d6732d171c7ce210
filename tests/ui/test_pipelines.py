"""The page Pipelines: what flows where, what waits and what failed, from the lake alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

import lode
from lode.store import MemoryStore
from support.ui.pipelines import ERROR, fill_pipelines
from support.ui.served import Served
from ui.test_accessible import UNNAMED, pale

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.ui.browsing import Visitor


@pytest.fixture(scope="module")
def flowing() -> Iterator[Served]:
    store = MemoryStore()
    fill_pipelines(store)
    with Served(store) as served:
        yield served


def test_pipelines_are_found_by_the_lineage_of_their_snapshots(flowing: Served) -> None:
    found = flowing.ask("pipelines")
    clean, daily, people, report = found["pipelines"]
    assert found["total"] == 4
    assert (clean["name"], clean["sink"], clean["tables"]) == ("clean", "clean", {"customers": "customers"})
    assert clean["also"] == ["clean_quarantine"]
    assert (clean["waiting"], clean["inputs"][0]["rows"], clean["last_run"]["state"]) == (1, 200, "done")
    assert [(each["name"], each["failed"]) for each in clean["expectations"]] == [
        ("has_id", 0),
        ("sane_amount", 3),
    ]
    assert (daily["waiting"], daily["last_run"]["error"]) == (1, ERROR)
    assert people["oldest"] is not None
    assert (report["waiting"], report["oldest"]) == (0, None)


def test_the_graph_flows_from_left_to_right(flowing: Served) -> None:
    graph = flowing.ask("pipelines")["graph"]
    columns = {node["id"]: node["column"] for node in graph["nodes"]}
    assert len({(node["column"], node["row"]) for node in graph["nodes"]}) == len(graph["nodes"]) == 11
    assert all(columns[edge["from"]] < columns[edge["to"]] for edge in graph["edges"])
    assert columns["dataset orders"] == 0
    assert {"from": "dataset customers", "to": "pipeline people"} in graph["edges"]
    assert next(node for node in graph["nodes"] if node["id"] == "dataset daily")["rows"] == 30


def test_a_pipeline_that_has_only_failed_is_shown_too(fresh: Served) -> None:
    assert fresh.ask("status")["pipelines"] is False
    assert fresh.ask("pipelines")["pipelines"] == []
    fresh.store.put("pipelines/first%20try.json", b'{"pipeline": "first try"}')
    fresh.store.put("pipelines/damaged.json", b"{")
    found = fresh.ask("pipelines")["pipelines"]
    assert [(row["name"], row["sink"], row["last_run"]) for row in found] == [
        ("damaged", None, None),
        ("first try", None, None),
    ]
    assert fresh.ask("status")["pipelines"] is True
    assert fresh.ask("overview")["datasets"] == []


def test_the_page_shows_the_graph_the_lag_and_the_error(flowing: Served, visitor: Visitor) -> None:
    page = visitor.open(flowing.url)
    page.get_by_role("link", name="Pipelines").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Pipelines")
    graph = page.get_by_role("region", name="Graph of datasets and pipelines")
    expect(graph.locator(".node")).to_have_count(11)
    expect(graph.locator(".edge")).to_have_count(12)
    expect(graph.locator(".pipeline.failed")).to_have_count(1)
    expect(graph.locator(".pipeline.skipped")).to_have_count(1)
    expect(page.locator(".facts")).to_contain_text("Failed1")  # and not the one that was skipped
    row = page.get_by_role("row", name="daily").first
    expect(row).to_contain_text(ERROR)
    expect(page.get_by_role("row", name="sane_amount")).to_contain_text("quarantine")
    assert page.evaluate(UNNAMED) == []
    assert pale(page, "light") == {}
    assert pale(page, "dark") == {}
    graph.get_by_role("link", name="dataset clean, 989 rows").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("clean")


def test_names_of_pipelines_are_shown_as_text(fresh: Served, visitor: Visitor) -> None:
    name = "<img src=x onerror=alert(1)>"
    lineage = {"lineage": {"made_by": name, "inputs": [], "tables": {}}}
    lode.Dataset("d", fresh.store, codec="jsonl").write([{"n": 1}], lineage)
    lode.Dataset("broken", fresh.store, codec="jsonl").write([{"n": 1}], {"lineage": 3, "expectations": 4})
    page = visitor.open(f"{fresh.url}#/pipelines")
    expect(page.get_by_role("row", name=name).first).to_be_visible()
    assert page.locator("img").count() == 0
