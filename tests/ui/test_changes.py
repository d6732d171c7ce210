"""The console after snapshots that removed rows: totals, partitions and samples are of what is visible."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import lode
from lode.store import MemoryStore
from lode.ui.timeline import DatasetTimeline

if TYPE_CHECKING:
    from support.ui.browsing import Visitor
    from support.ui.served import Served

SCHEMA = {"day": "string!", "n": "int64"}


def rows(day: str, *numbers: int) -> list[dict[str, Any]]:
    return [{"day": day, "n": number} for number in numbers]


def written(store: Any) -> lode.Dataset:
    """Six snapshots, of which the last four change what is there: mon has 7 and 9 at the end."""
    dataset = lode.Dataset("d", store, codec=lode.Parquet(SCHEMA), layout=lode.HiveLayout("day"))
    dataset.write(rows("mon", 1, 2, 3) + rows("tue", 4))
    dataset.write(rows("mon", 5))
    dataset.overwrite(rows("mon", 7, 8))
    dataset.delete("day = 'tue' OR n = 8")
    dataset.write(rows("mon", 9))
    dataset.compact()
    return dataset


def test_totals_are_of_the_visible_rows_at_every_snapshot() -> None:
    store = MemoryStore()
    dataset = written(store)
    view = DatasetTimeline(store, "d").look()
    assert [line.total_rows for line in view.lines] == [4, 5, 3, 1, 2, 2]
    assert [dataset.count(as_of=line.sequence) for line in view.lines] == [4, 5, 3, 1, 2, 2]
    assert view.rows == 2
    assert view.bytes == dataset.plan().size_bytes
    assert [(line.operation, line.added, line.removed) for line in view.lines[2:]] == [
        ("overwrite", 2, 4),
        ("delete", 0, 2),
        ("append", 1, 0),
        ("compact", 0, 0),
    ]


def test_a_restore_has_the_totals_of_the_restored_snapshot() -> None:
    store = MemoryStore()
    dataset = written(store)
    timeline = DatasetTimeline(store, "d")
    timeline.look()
    dataset.restore(2)
    dataset.write(rows("wed", 1))
    for view in (timeline.look(), DatasetTimeline(store, "d").look()):
        assert [line.total_rows for line in view.lines] == [4, 5, 3, 1, 2, 2, 5, 6]
        assert view.rows == dataset.count() == 6
        assert (view.lines[6].added, view.lines[6].removed) == (5, 2)
        assert sorted(view.partitions) == ["day=mon", "day=tue", "day=wed"]


def test_a_cached_history_and_a_new_one_agree_after_every_change() -> None:
    store = MemoryStore()
    dataset = lode.Dataset("d", store, codec=lode.Parquet(SCHEMA), layout=lode.HiveLayout("day"))
    cached = None
    for change in (
        lambda: dataset.write(rows("mon", 1, 2)),
        lambda: dataset.write(rows("tue", 3)),
        lambda: dataset.delete("n = 1"),
        lambda: dataset.merge(rows("mon", 2) + rows("wed", 4), on=["day", "n"]),
        lambda: dataset.overwrite(rows("fri", 5), everything=True),
        lambda: dataset.write(rows("sat", 6)),
        lambda: dataset.restore(2),
    ):
        change()
        cached = cached or DatasetTimeline(store, "d")
        old, new = cached.look(), DatasetTimeline(store, "d").look()
        assert old.lines == new.lines
        assert dict(old.partitions) == dict(new.partitions)
        assert old.rows == new.rows == old.lines[-1].total_rows == dataset.count()


def test_the_pages_of_a_dataset_show_what_is_visible(fresh: Served) -> None:
    written(fresh.store)
    found = fresh.ask("datasets", "d")
    assert (found["snapshots"], found["rows"], found["partitions"]) == (6, 2, 1)
    assert [bucket["total_rows"] for bucket in found["buckets"]] == [4, 5, 3, 1, 2, 2]
    (listed,) = fresh.ask("overview")["datasets"]
    assert (listed["rows"], listed["growth"][-1]) == (2, 2)
    partitions = fresh.ask("datasets", "d", "partitions")["partitions"]
    assert [(part["partition"], part["rows"], part["files"]) for part in partitions] == [("day=mon", 2, 1)]
    sample = fresh.ask("datasets", "d", "rows")
    assert sorted(row[-1] for row in sample["rows"]) == ["7", "9"]


@pytest.mark.parametrize(
    ("sequence", "operation", "removed", "replaced"),
    [(3, "overwrite", 4, ["day=mon"]), (4, "delete", 3, []), (6, "compact", 2, [""]), (7, "restore", 2, [])],
)
def test_a_snapshot_tells_what_it_removed(
    fresh: Served, sequence: int, operation: str, removed: int, replaced: list[str]
) -> None:
    dataset = written(fresh.store)
    first = dataset.snapshot(1)
    dataset.restore(first)
    found = fresh.ask("datasets", "d", "snapshots", str(sequence))
    assert (found["operation"], found["removed"]["rows"], found["replaced"]) == (operation, removed, replaced)
    assert found["restores"] == (first.id if operation == "restore" else None)


def test_the_sample_after_everything_was_deleted_is_empty(fresh: Served) -> None:
    written(fresh.store).delete("true")
    assert fresh.ask("datasets", "d")["rows"] == 0
    assert fresh.ask("datasets", "d", "rows")["rows"] == []


def test_a_dataset_that_was_dropped_and_made_again_is_whole() -> None:
    store = MemoryStore()
    dataset = written(store)
    timeline = DatasetTimeline(store, "d")
    timeline.look()
    dataset.drop()
    lode.Dataset("d", store, codec="jsonl").write([{"n": 1}])
    view = timeline.look()
    assert (len(view.lines), view.is_whole, view.rows) == (1, True, 1)


def test_the_page_marks_operations_with_the_rows_they_removed(fresh: Served, visitor: Visitor) -> None:
    dataset = written(fresh.store)
    deleted = dataset.snapshot(4)
    dataset.restore(1)
    page = visitor.open(f"{fresh.url}#/datasets/d")
    table = page.get_by_role("table", name="Snapshots of d")
    table.get_by_text("restore").wait_for()
    history = table.inner_text()
    assert "\N{MINUS SIGN}2" in history
    assert "+2 \N{MINUS SIGN}4" in history
    for operation in ("overwrite", "delete", "compact", "restore"):
        assert operation in history
    page = visitor.open(f"{fresh.url}#/datasets/d/{deleted.id}")
    page.get_by_text("Rows removed").wait_for()
