"""The page in a real browser: what people see and do."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

import lode
from support.groups import always_wait, write_group
from support.ui.browsing import NARROWEST, PHONE, visiting
from support.ui.lake import COMMITS

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from support.ui.browsing import Visitor
    from support.ui.served import Served

BACKGROUND = "getComputedStyle(document.body).backgroundColor"
LIGHT = "rgb(250, 249, 246)"
DARK = "rgb(20, 23, 26)"
PAGES = ("#/", "#/datasets/visits", "#/datasets/visits/{latest}", "#/volumes/disk-image", "#/health")


def address(lake: Served, page: str) -> str:
    return lake.url + page.format(latest=lode.open_dataset("visits", lake.store).latest().id)


def test_the_overview_lists_datasets_and_volumes(lake: Served, visitor: Visitor) -> None:
    page = visitor.open(lake.origin)
    assert page.url == lake.url
    expect(page.get_by_role("rowheader").get_by_role("link")).to_have_text(
        ["backups", "clicks.raw", "visits", "disk-image", "firmware"]
    )
    expect(page.get_by_role("row", name="visits")).to_contain_text("parquet by day")
    expect(page.get_by_role("row", name="disk-image")).to_contain_text("57.8%")


def test_the_filter_leaves_what_matches(lake: Served, visitor: Visitor) -> None:
    page = visitor.open(lake.url)
    page.get_by_label("Filter by name").fill("cli")
    expect(page.get_by_role("rowheader").get_by_role("link")).to_have_text(["clicks.raw"])


def test_the_chain_has_as_many_commits_as_the_history(lake: Served, visitor: Visitor) -> None:
    page = visitor.open(f"{lake.url}#/datasets/visits")
    chain = page.get_by_role("listbox")
    expect(chain).to_have_attribute("data-commits", str(COMMITS))
    page.wait_for_selector("[role=option]:not(.coming)")
    seen: set[str] = set()
    wanted = {str(number) for number in range(1, COMMITS + 1)}
    deadline = time.monotonic() + 60
    while seen != wanted and time.monotonic() < deadline:  # on a busy machine, it is drawn later
        for left in range(0, 2400, 400):
            chain.evaluate("(box, left) => { box.scrollLeft = left }", left)
            page.wait_for_timeout(60)
            seen |= set(
                chain.get_by_role("option").evaluate_all("all => all.map(one => one.dataset.sequence)")
            )
    assert seen == wanted


def test_a_short_chain_is_drawn_whole_with_its_rebases_marked(fresh: Served, visitor: Visitor) -> None:
    ours, theirs = (
        lode.Dataset("d", fresh.store, codec="jsonl", layout=lode.HiveLayout("k")) for _ in range(2)
    )
    ours.write([{"k": "a"}])
    with theirs.transaction() as late:
        late.stage([{"k": "late"}])
        ours.write([{"k": "b"}])
        late.commit()
    page = visitor.open(f"{fresh.url}#/datasets/d")
    page.wait_for_selector(".commit.rebased[role=option]")
    options = page.get_by_role("option")
    expect(options).to_have_count(3)
    expect(options.nth(2)).to_have_attribute("aria-label", re.compile("rebased behind 1 other$"))
    assert page.locator(".arc").count() == 1
    assert page.locator("[role=option] .diamond").count() == 1


def test_groups_are_underlined_and_contention_is_summed_up(
    fresh: Served, visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    lode.Dataset("d", fresh.store, codec="jsonl").write([{"k": 0}])
    always_wait(monkeypatch)
    for size in (3, 2):
        members = write_group(fresh.store, "d", size)
    page = visitor.open(f"{fresh.url}#/datasets/d")
    page.wait_for_selector(".commit[role=option]:not(.coming)")
    expect(page.locator(".chain .group")).to_have_count(2)
    expect(page.get_by_text("a group: committed together")).to_be_visible()
    expect(page.get_by_role("option").nth(2)).to_have_attribute(
        "aria-label", re.compile("2 of 3 in a group$")
    )
    busy = page.get_by_role("region", name="Contention")
    expect(busy).to_contain_text("5 were committed in 2 groups, the largest of 3")
    expect(page.get_by_role("table", name="Snapshots of d")).to_contain_text("2 of 2 in a group")
    page.goto(f"{fresh.url}#/datasets/d/{members[0].id}")
    expect(page.locator("dl.pairs").first).to_contain_text("1 other: 1 of 2 in a group")


def test_a_dataset_of_one_writer_shows_no_contention(fresh: Served, visitor: Visitor) -> None:
    lode.Dataset("d", fresh.store, codec="jsonl").write([{"k": 0}])
    page = visitor.open(f"{fresh.url}#/datasets/d")
    expect(page.get_by_role("heading", name="History")).to_be_visible()
    expect(page.get_by_role("heading", name="Contention")).to_have_count(0)
    expect(page.get_by_text("a group: committed together")).to_be_hidden()


def test_a_hole_and_an_unpublished_snapshot_are_marked(fresh: Served, visitor: Visitor) -> None:
    dataset = lode.Dataset("d", fresh.store, codec="jsonl")
    snapshots = [dataset.write([{"n": number}]) for number in range(5)]
    for place in (1, 4):
        fresh.store.delete(dataset.chain.paths.manifest(snapshots[place].id))
    page = visitor.open(f"{fresh.url}#/datasets/d")
    expect(page.get_by_role("alert")).to_contain_text(snapshots[1].id)
    expect(page.locator(".notice.warn")).to_contain_text(snapshots[4].id)
    page.wait_for_selector(".tear", state="attached")
    assert page.locator("[role=listbox] .pending").count() == 1
    expect(page.get_by_role("option")).to_have_count(2)


def test_opening_a_snapshot_shows_its_rows(lake: Served, visitor: Visitor) -> None:
    page = visitor.open(f"{lake.url}#/datasets/clicks.raw")
    page.get_by_role("table", name="Snapshots of clicks.raw").get_by_role("link").first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Snapshot 12")
    rows = page.get_by_role("table", name="The first rows").get_by_role("row")
    expect(rows).to_have_count(11)
    expect(rows.nth(1)).to_contain_text(str(2**60))
    page.get_by_role("link", name="Parent").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Snapshot 11")
    page.go_back()
    expect(page.get_by_role("heading", level=1)).to_have_text("Snapshot 12")


def test_pointing_at_a_commit_tells_about_it_and_a_click_opens_it(lake: Served, visitor: Visitor) -> None:
    page = visitor.open(f"{lake.url}#/datasets/visits")
    page.wait_for_selector("[role=option]:not(.coming)")
    box = page.locator("[role=option][data-sequence='60'] .dot").bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    expect(page.locator(".details")).to_contain_text("Snapshot 60")
    page.mouse.click(x, y)
    expect(page.get_by_role("heading", level=1)).to_have_text("Snapshot 60")


def test_a_finger_sees_the_details_first_and_opens_them_from_there(lake: Served, browser: Browser) -> None:
    with visiting(browser, size=PHONE, has_touch=True) as visitor:
        page = visitor.open(f"{lake.url}#/datasets/visits")
        page.wait_for_selector("[role=option]:not(.coming)")
        page.get_by_role("listbox").scroll_into_view_if_needed()
        box = page.locator("[role=option][data-sequence='60'] .dot").bounding_box()
        assert box is not None
        page.touchscreen.tap(box["x"] + 4, box["y"] + 4)
        page.locator(".details").get_by_role("link", name="Snapshot 60").tap()
        expect(page.get_by_role("heading", level=1)).to_have_text("Snapshot 60")


def test_history_is_paged_newest_first(lake: Served, visitor: Visitor) -> None:
    page = visitor.open(f"{lake.url}#/datasets/visits")
    cells = page.get_by_role("table", name="Snapshots of visits").locator("tbody tr td:first-child")
    expect(cells.first).to_have_text("64")
    page.get_by_role("region", name="History").get_by_role("button", name="Next").click()
    expect(cells.first).to_have_text("39")
    page.get_by_role("region", name="History").get_by_role("button", name="Next").click()
    expect(cells).to_have_count(14)
    expect(cells.last).to_have_text("1")
    expect(page.get_by_role("region", name="History").get_by_role("button", name="Next")).to_be_disabled()
    page.get_by_role("region", name="History").get_by_role("button", name="First").click()
    expect(cells.first).to_have_text("64")


def test_a_new_snapshot_appears_by_itself_and_is_announced(fresh: Served, alone: Visitor) -> None:
    dataset = lode.Dataset("d", fresh.store, codec="jsonl")
    dataset.write([{"n": 1}])
    alone.page.clock.install()
    page = alone.open(f"{fresh.url}#/datasets/d")
    expect(page.get_by_role("option")).to_have_count(1)
    dataset.write([{"n": 2}])
    page.clock.run_for(5_000)
    expect(page.get_by_role("option")).to_have_count(2)
    expect(page.locator("#announcer")).to_have_text("1 new snapshot, 2 snapshots now")


def test_a_dataset_shows_its_definition_and_what_changed_it(fresh: Served, visitor: Visitor) -> None:
    dataset = lode.Dataset.create(
        "visits",
        fresh.store,
        schema={"day": "string!", "visits": "int32"},
        partition_by=["day"],
        primary_key=["day"],
        description="Visits by day, from the crawler.",
        properties={"owner": "web team"},
    )
    dataset.write([{"day": "mon", "visits": 3}])
    dataset.evolve(widen={"visits": "int64"}, add={"country": "string"})
    page = visitor.open(f"{fresh.url}#/datasets/visits")
    expect(page.get_by_text("Visits by day, from the crawler.")).to_be_visible()
    expect(page.get_by_text("web team")).to_be_visible()
    columns = page.get_by_role("region", name="Columns")
    expect(columns.get_by_role("row")).to_have_text(
        ["ColumnTypeNullable", "daypartition keyprimary keystringno", "visitsint64yes", "countrystringyes"]
    )
    notes = page.get_by_role("region", name="History").get_by_role("row")
    expect(notes.nth(1)).to_contain_text("evolve")
    expect(notes.nth(3)).to_contain_text("create")
    page.get_by_role("region", name="History").get_by_role("rowheader").get_by_role("link").first.click()
    expect(page.get_by_text("This snapshot has no rows.")).to_be_visible()
    expect(page.get_by_role("region", name="About")).to_contain_text("evolve")


def test_a_volume_shows_its_holes(lake: Served, visitor: Visitor) -> None:
    page = visitor.open(f"{lake.url}#/volumes/disk-image")
    expect(page.get_by_role("img", name="57.8% of 40 MB is there")).to_be_visible()
    expect(page.get_by_role("table", name="Holes").locator("tbody tr")).to_have_count(26)
    page.get_by_role("table", name="Snapshots").get_by_role("link").last.click()
    expect(page.locator(".notice.warn")).to_contain_text("snapshot 1, not the newest")


def test_what_is_not_there_is_told_and_can_be_tried_again(fresh: Served, browser: Browser) -> None:
    with visiting(browser) as visitor:
        page = visitor.open(f"{fresh.url}#/datasets/late")
        expect(page.get_by_role("heading", level=1)).to_have_text("Not found")
        lode.Dataset("late", fresh.store).write(b"x")
        page.get_by_role("button", name="Try again").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("late")
        # The browser itself notes an answer of 404, which was meant.
        assert all("404" in complaint for complaint in visitor.complaints)
        visitor.complaints.clear()


def test_names_and_values_are_text_and_never_markup(fresh: Served, visitor: Visitor) -> None:
    nasty = "<img src=x onerror=alert(1)> &amp; %2e"
    snapshot = lode.Dataset(nasty, fresh.store, codec="jsonl").write([{nasty: nasty}], {nasty: nasty})
    page = visitor.open(fresh.url)
    page.get_by_role("link", name=nasty).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(nasty)
    page.get_by_role("rowheader").get_by_role("link").click()
    expect(page.get_by_role("cell", name=nasty)).to_be_visible()
    expect(page.locator(".id")).to_have_text(snapshot.id)
    assert page.locator("main img").count() == 0


def test_long_names_and_values_do_not_widen_a_narrow_screen(fresh: Served, browser: Browser) -> None:
    long = "x" * 200
    created = lode.Dataset.create(
        long,
        fresh.store,
        schema={long: "string", "k": "string!"},
        partition_by=["k"],
        description=long,
        properties={long: long},
        writer=long,
    )
    snapshot = created.write([{long: long, "k": long}], {long: long}, idempotency_key=(long, long))
    page_of = f"#/datasets/{long}"
    with visiting(browser, size=NARROWEST) as visitor:
        for where in ("", page_of, f"{page_of}/{snapshot.id}", "#/health"):
            page = visitor.open(fresh.url + where)
            expect(page.locator(".loading")).to_have_count(0)
            assert page.evaluate("document.documentElement.scrollWidth") <= NARROWEST["width"], where


@pytest.mark.parametrize("where", PAGES)
def test_a_narrow_screen_has_no_horizontal_scroll(lake: Served, browser: Browser, where: str) -> None:
    with visiting(browser, size=NARROWEST) as visitor:
        page = visitor.open(address(lake, where))
        expect(page.locator(".coming, .plot:empty")).to_have_count(0)
        assert page.evaluate("document.documentElement.scrollWidth") <= NARROWEST["width"]


def test_the_theme_follows_the_system_until_one_is_chosen_and_says_which(
    lake: Served, browser: Browser
) -> None:
    with visiting(browser, theme="dark") as visitor:
        page = visitor.open(lake.url)
        theme = page.get_by_role("group", name="Theme")
        expect(theme.get_by_role("radio", name="System")).to_be_checked()
        assert page.evaluate(BACKGROUND) == DARK
        theme.get_by_role("radio", name="Light").check()
        assert page.evaluate(BACKGROUND) == LIGHT
        expect(page.locator("#announcer")).to_have_text("Theme: light")
        page.reload()
        page.wait_for_selector("h1")
        expect(theme.get_by_role("radio", name="Light")).to_be_checked()
        assert page.evaluate(BACKGROUND) == LIGHT
        page.keyboard.press("Tab")
        theme.get_by_role("radio", name="Light").focus()
        page.keyboard.press("ArrowLeft")
        expect(page.locator("#announcer")).to_have_text("Theme of the system, dark now")
        assert page.evaluate(BACKGROUND) == DARK
        page.emulate_media(color_scheme="light")
        expect(page.locator("html")).to_have_attribute("data-theme", "light")
        assert page.evaluate(BACKGROUND) == LIGHT


def test_a_theme_can_be_chosen_where_storage_is_forbidden(lake: Served, browser: Browser) -> None:
    with visiting(browser) as visitor:
        visitor.page.add_init_script(
            "Object.defineProperty(window, 'localStorage', { get() { throw new Error('forbidden'); } })"
        )
        page = visitor.open(lake.url)
        page.get_by_role("radio", name="Dark").check()
        assert page.evaluate(BACKGROUND) == DARK
        page.get_by_role("link", name="Health").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Health")
        assert page.evaluate(BACKGROUND) == DARK
