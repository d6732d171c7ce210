"""Reads of what is new: net rows, removals that are refused, ignored or reported, and compactions."""

from __future__ import annotations

import pickle
import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import lode
from lode.store import CountingStore, MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

SCHEMA = {"id": "int64", "p": "string", "v": "int64"}
Row = tuple[int, str, int]


def dataset_on(store: lode.Store, codec: Any = None, **options: Any) -> lode.Dataset:
    return lode.Dataset("d", store, codec=codec or lode.Parquet(SCHEMA), **options)


def partitioned() -> lode.Dataset:
    return dataset_on(MemoryStore(), layout=lode.HiveLayout("p"))


def records(rows: Iterable[Row]) -> list[dict[str, Any]]:
    return [dict(zip(SCHEMA, row, strict=True)) for row in rows]


def rows_of(dataset: lode.Dataset, **options: Any) -> list[Row]:
    found = dataset.scan(**options).read_all().to_pylist()
    return [(row["id"], row["p"], row["v"]) for row in found]


def reported(dataset: lode.Dataset, **options: Any) -> list[tuple[str, Row]]:
    found = dataset.scan(on_removal="report", **options).read_all().to_pylist()
    return [(row["_change"], (row["id"], row["p"], row["v"])) for row in found]


def applied(rows: Iterable[Row], changes: Iterable[tuple[str, Row]]) -> Counter[Row]:
    """The rows after these changes, in their order; a row that is not there cannot go."""
    state = Counter(rows)
    for change, row in changes:
        state[row] += 1 if change == "insert" else -1
        assert state[row] >= 0
    return +state


class History:
    """A random history, with the rows that each snapshot was given."""

    def __init__(self, seed: int, dataset: lode.Dataset) -> None:
        self.random = random.Random(seed)
        self.dataset = dataset
        self.dataset.write(records(self.rows(3)))
        self.added: dict[str, list[Row]] = {}
        operations: list[Callable[[], list[Row]]] = [
            *[self.append] * 4,
            *[self.compact] * 3,
            self.delete,
            self.overwrite,
            self.merge,
            self.restore,
        ]
        for _ in range(12):
            before = dataset.latest().id
            added = self.random.choice(operations)()
            if dataset.latest().id != before:
                self.added[dataset.latest().id] = added

    def rows(self, count: int) -> list[Row]:
        return [
            (self.random.randrange(20), self.random.choice("ab"), self.random.randrange(100))
            for _ in range(count)
        ]

    def append(self) -> list[Row]:
        rows = self.rows(3)
        self.dataset.write(records(rows))
        return rows

    def compact(self) -> list[Row]:
        self.dataset.compact()
        return []

    def delete(self) -> list[Row]:
        self.dataset.delete(self.random.choice(["v < 30", "id = 4", "p = 'a'", "p = 'b' AND v > 60"]))
        return []

    def overwrite(self) -> list[Row]:
        rows = self.rows(2)
        if self.dataset.layout.keys:
            self.dataset.overwrite(records(rows))
        else:
            rows = [(id, p, 200) for id, p, _ in rows]
            self.dataset.overwrite(records(rows), where="v > 50")
        return rows

    def merge(self) -> list[Row]:
        rows = list({row[0]: row for row in self.rows(4)}.values())
        # A row with the key of two rows of the dataset replaces both.
        stored = Counter(id for id, _, _ in rows_of(self.dataset))
        self.dataset.merge(records(rows), on=["id"])
        return [row for row in rows for _ in range(max(stored[row[0]], 1))]

    def restore(self) -> list[Row]:
        self.dataset.restore(self.random.choice(self.dataset.snapshots()))
        return []


@pytest.mark.parametrize("seed", range(8))
def test_every_range_of_a_random_history_leads_from_one_state_to_the_other(seed: int) -> None:
    layout = lode.HiveLayout("p") if seed % 2 else None
    codec = lode.JSONL(SCHEMA) if seed % 4 == 2 else None
    dataset = dataset_on(MemoryStore(), codec, layout=layout)
    history = History(seed, dataset)
    snapshots = dataset.snapshots()
    states = [rows_of(dataset, as_of=snapshot) for snapshot in snapshots]
    for first in range(0, len(snapshots) - 1, 2):
        for last in range(first + 1, len(snapshots)):
            since, as_of = snapshots[first], snapshots[last]
            changes = reported(dataset, since=since, as_of=as_of)
            assert applied(states[first], changes) == Counter(states[last])
            assert dataset.count(since=since, as_of=as_of, on_removal="report") == len(changes)
            added = [row for one in snapshots[first + 1 : last + 1] for row in history.added[one.id]]
            assert Counter(rows_of(dataset, since=since, as_of=as_of, on_removal="ignore")) == Counter(added)
            try:
                new = rows_of(dataset, since=since, as_of=as_of)
            except lode.RowsRemovedError:
                # Refused only if more rows went than those that came in the range.
                assert any(change == "delete" for change, _ in changes)
            else:
                assert Counter(states[first]) + Counter(new) == Counter(states[last])
                assert dataset.count(since=since, as_of=as_of) == len(new)


def outcomes(dataset: lode.Dataset, since: lode.Snapshot) -> list[list[Any] | None]:
    """What each kind of read of the rows after a snapshot returns; None if they were removed."""
    found: list[list[Any] | None] = []
    for read in (
        lambda: rows_of(dataset, since=since),
        lambda: rows_of(dataset, since=since, on_removal="ignore"),
        lambda: reported(dataset, since=since),
    ):
        try:
            found.append(sorted(read()))
        except lode.RowsRemovedError:
            found.append(None)
    return found


@pytest.mark.parametrize("seed", range(12))
def test_after_an_expiry_what_follows_a_snapshot_is_the_same_or_refused(seed: int) -> None:
    dataset = dataset_on(MemoryStore(), layout=lode.HiveLayout("p") if seed % 2 else None)
    history = History(seed, dataset)
    snapshots = dataset.snapshots()
    before = [outcomes(dataset, since) for since in snapshots]
    keep = 1 + history.random.randrange(6)
    floor = lode.expire(dataset, keep=keep, dry_run=False).floor
    for number, since in enumerate(snapshots, start=1):
        later = snapshots[number:]
        changing = [at for at, one in enumerate(later, number + 1) if one.operation != "compact"]
        if not changing or changing[0] > floor:
            # All that it takes is there, also if compactions of before the floor are in between.
            assert outcomes(dataset, since) == before[number - 1]
        elif changing[0] < floor:
            for on_removal in ("fail", "ignore", "report"):
                with pytest.raises((lode.SnapshotExpiredError, lode.RowsRemovedError)):
                    rows_of(dataset, since=since, on_removal=on_removal)


def test_compactions_that_are_expired_hide_nothing_that_came_after_them() -> None:
    dataset = partitioned()
    dataset.write(records([(1, "a", 1)]))
    since = dataset.write(records([(2, "a", 2)]))
    dataset.compact()
    assert lode.expire(dataset, keep=1, dry_run=False).floor == 3
    assert rows_of(dataset, since=since) == []
    dataset.write(records([(3, "a", 3)]))
    lode.expire(dataset, keep=1, dry_run=False)
    dataset.delete("id = 1")
    assert rows_of(dataset, since=since, on_removal="ignore") == [(3, "a", 3)]
    assert applied([(1, "a", 1), (2, "a", 2)], reported(dataset, since=since)) == Counter(rows_of(dataset))
    with pytest.raises(lode.RowsRemovedError):
        rows_of(dataset, since=since)
    dataset.write(records([(4, "a", 4)]))
    lode.expire(dataset, keep=1, dry_run=False)
    with pytest.raises(lode.SnapshotExpiredError):
        rows_of(dataset, since=since, on_removal="ignore")


def test_rows_that_were_removed_before_the_reader_came_are_not_new() -> None:
    dataset = partitioned()
    dataset.write(records([(1, "a", 1)]))
    since = dataset.write(records([(2, "b", 2)]))
    dataset.write(records([(3, "c", 3), (4, "c", 4)]))
    dataset.delete("id = 3")
    assert rows_of(dataset, since=since) == [(4, "c", 4)]
    dataset.overwrite(records([(5, "c", 5)]))
    assert rows_of(dataset, since=since) == [(5, "c", 5)]
    assert rows_of(dataset, since=since, on_removal="ignore") == [(3, "c", 3), (4, "c", 4), (5, "c", 5)]


def test_a_removal_of_older_rows_is_refused_and_the_error_names_it_and_the_choices() -> None:
    dataset = partitioned()
    since = dataset.write(records([(1, "a", 1), (2, "a", 2)]))
    dataset.write(records([(3, "b", 3)]))
    removal = dataset.delete("id = 1").snapshot
    assert removal is not None
    dataset.write(records([(4, "b", 4)]))
    for read in (dataset.scan, dataset.count, dataset.plan, dataset.to_pandas):
        with pytest.raises(lode.RowsRemovedError) as error:
            read(since=since)
        assert error.value.snapshot_id == removal.id
        assert pickle.loads(pickle.dumps(error.value)).snapshot_id == removal.id
        for word in (removal.id, "delete", '"fail"', '"ignore"', '"report"'):
            assert word in str(error.value)
    assert rows_of(dataset, since=since, on_removal="ignore") == [(3, "b", 3), (4, "b", 4)]
    assert reported(dataset, since=since) == [
        ("insert", (3, "b", 3)),
        ("delete", (1, "a", 1)),
        ("delete", (2, "a", 2)),
        ("insert", (2, "a", 2)),
        ("insert", (4, "b", 4)),
    ]
    assert rows_of(dataset, since=removal) == [(4, "b", 4)]


def test_a_partition_rule_counts_only_if_it_hits_older_rows() -> None:
    dataset = partitioned()
    since = dataset.write(records([(1, "a", 1)]))
    dataset.overwrite(records([(2, "b", 2)]))
    assert rows_of(dataset, since=since) == [(2, "b", 2)]
    dataset.overwrite(records([(3, "a", 3)]))
    with pytest.raises(lode.RowsRemovedError):
        dataset.scan(since=since)


def test_a_compaction_in_the_range_brings_nothing_and_hides_nothing() -> None:
    dataset = partitioned()
    dataset.write(records([(1, "a", 1)]))
    since = dataset.write(records([(2, "a", 2)]))
    added = dataset.write(records([(3, "a", 3)]))
    compaction = dataset.compact().snapshot
    dataset.write(records([(4, "a", 4)]))
    assert rows_of(dataset, since=since) == [(3, "a", 3), (4, "a", 4)]
    assert dataset.plan(since=since).paths[0] == added.files[0].path
    assert dataset.count(since=added, as_of=compaction) == 0
    assert dataset.count(since=added, as_of=compaction, on_removal="report") == 0
    assert [one.operation for one in dataset.changes(since)] == ["append", "append"]
    assert [one.operation for one in dataset.snapshots(since=since)] == ["append", "compact", "append"]


def test_new_rows_that_were_compacted_and_then_deleted_are_gone() -> None:
    dataset = dataset_on(MemoryStore())
    since = dataset.write(records([(1, "a", 1)]))
    dataset.compact()
    for id in (2, 3):
        dataset.write(records([(id, "a", id)]))
    only_new = dataset.latest()
    dataset.delete("id = 1")
    dataset.compact()
    dataset.delete("id = 2")
    assert rows_of(dataset, since=only_new, on_removal="ignore") == []
    start = dataset.latest()
    for id in (4, 5, 6):
        dataset.write(records([(id, "b", id)]))
    # Only the three new files are small enough to be compacted together with each other and the old one.
    dataset.compact(where="p = 'b'")
    dataset.delete("id = 5")
    assert rows_of(dataset, since=start) == [(4, "b", 4), (6, "b", 6)]
    with pytest.raises(lode.RowsRemovedError):
        dataset.scan(since=since)


def test_a_restore_is_the_difference_of_two_states() -> None:
    dataset = partitioned()
    since = dataset.write(records([(1, "a", 1)]))
    dataset.write(records([(2, "b", 2)]))
    dataset.restore(since)
    assert rows_of(dataset, since=since) == []
    assert reported(dataset, since=since) == [("insert", (2, "b", 2)), ("delete", (2, "b", 2))]
    dataset.restore(2)
    assert rows_of(dataset, since=since) == [(2, "b", 2)]
    dataset.delete("id = 1")
    dataset.restore(2)
    # What was removed is there again.
    assert rows_of(dataset, since=since) == [(2, "b", 2)]


def test_the_column_of_the_change_can_be_chosen_and_filtered_by(tmp_path: Path) -> None:
    dataset = dataset_on(lode.open_store(tmp_path, durable=False))
    since = dataset.write(records([(1, "a", 1), (2, "a", 2)]))
    dataset.delete("id = 1")
    read = dataset.scan(since=since, on_removal="report", columns=["_change"], where="id = 2").read_all()
    assert read.to_pydict() == {"_change": ["delete", "insert"]}
    deleted = dataset.scan(since=since, on_removal="report", columns=["id"], where="_change = 'delete'")
    assert deleted.read_all().to_pydict() == {"id": [1, 2]}
    assert dataset.count(since=since, on_removal="report", where="_change = 'insert'") == 1
    plan = pickle.loads(pickle.dumps(dataset.plan(since=since, on_removal="report")))
    assert plan.read().read_all().num_rows == 3


def test_reports_of_renamed_columns_and_of_records_without_a_schema() -> None:
    dataset = dataset_on(MemoryStore())
    since = dataset.write(records([(1, "a", 1), (2, "a", 2)]))
    dataset.evolve(rename={"v": "w"})
    dataset.delete("id = 1")
    found = dataset.scan(since=since, on_removal="report", columns=["w", "_change"]).read_all().to_pylist()
    assert [tuple(row.values()) for row in found] == [(1, "delete"), (2, "delete"), (2, "insert")]
    loose = lode.Dataset("loose", MemoryStore(), codec=lode.JSONL(), layout=lode.HiveLayout("p"))
    start = loose.write([{"p": "a", "n": 1}])
    loose.overwrite([{"p": "a", "m": "x"}])
    rows = loose.scan(since=start, on_removal="report").read_all().to_pylist()
    assert rows == [
        {"p": "a", "n": 1, "m": None, "_change": "delete"},
        {"p": "a", "n": None, "m": "x", "_change": "insert"},
    ]


def test_wrong_options_are_refused() -> None:
    dataset = dataset_on(MemoryStore())
    since = dataset.write(records([(1, "a", 1)]))
    with pytest.raises(lode.InvalidOptionError, match='"fail", "ignore" or "report"'):
        dataset.scan(since=since, on_removal="skip")  # type: ignore[arg-type]
    with pytest.raises(lode.InvalidOptionError, match="give since too"):
        dataset.count(on_removal="report")
    taken = lode.Dataset("taken", MemoryStore(), codec=lode.Parquet({"_change": "int64"}))
    first = taken.write([{"_change": 1}])
    taken.write([{"_change": 2}])
    assert taken.count(since=first) == 1
    with pytest.raises(lode.InvalidOptionError, match="has a column '_change'"):
        taken.scan(since=first, on_removal="report")


def test_a_range_without_removals_costs_no_more_than_its_snapshots() -> None:
    store = CountingStore(MemoryStore())
    dataset = dataset_on(store, layout=lode.HiveLayout("p"))
    for id in range(3):
        dataset.write(records([(id, "a", id)]))
    dataset.delete("id = 0")
    since = dataset.latest()
    dataset.write(records([(7, "a", 7)]))
    store.reset()
    dataset.plan(since=since)
    assert not [event for event in store.events if "/state/" in event[1]]


def test_a_range_below_the_floor_names_where_history_begins() -> None:
    dataset = partitioned()
    snapshots = [dataset.write(records([(id, "a", id)])) for id in range(4)]
    lode.expire(dataset, keep=2, dry_run=False)
    with pytest.raises(lode.SnapshotExpiredError, match="history begins at number 3 now"):
        dataset.scan(since=snapshots[0])
    with pytest.raises(lode.SnapshotExpiredError, match="history begins at number 3 now"):
        dataset.plan(since=snapshots[0], as_of=snapshots[1], on_removal="ignore")
    # All files of number 3 and later are there.
    assert rows_of(dataset, since=snapshots[1]) == [(2, "a", 2), (3, "a", 3)]


def test_a_report_needs_the_files_that_its_first_snapshot_removes() -> None:
    dataset = partitioned()
    first = dataset.write(records([(1, "a", 1)]))
    dataset.overwrite(records([(2, "a", 2)]))
    lode.expire(dataset, keep=1, dry_run=False)
    with pytest.raises(lode.SnapshotExpiredError):
        dataset.scan(since=first, on_removal="report")
    assert rows_of(dataset, since=first, on_removal="ignore") == [(2, "a", 2)]
