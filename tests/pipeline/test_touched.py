"""The values that a range of history touches: none may be missed, whatever happened in it."""

from __future__ import annotations

from collections import Counter
from datetime import date
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lode
from lode.lineage.position import BEGINNING, Position, position_of
from lode.lineage.touched import MAX_VALUES, known_values, touched
from lode.read.which import ExactId
from lode.store import CountingStore
from lode.store.memory import MemoryStore

DAYS = ["mon", "tue", "", None, "2026-11-15", "x" * 300]  # bounds of a long text are not recorded
ROWS = st.lists(st.tuples(st.sampled_from(DAYS), st.integers(0, 3)), max_size=4)
ACTIONS = st.one_of(
    st.tuples(st.just("write"), ROWS),
    st.tuples(st.just("overwrite"), ROWS),
    st.tuples(st.just("replace"), st.integers(0, 3)),
    st.tuples(st.just("delete"), st.integers(0, 3)),
    st.tuples(st.just("merge"), ROWS),
    st.tuples(st.just("compact"), st.none()),
    st.tuples(st.just("restore"), st.integers(1, 5)),
)


def records(rows: list[tuple[str | None, int]]) -> list[dict[str, Any]]:
    return [{"day": day, "n": n} for day, n in rows]


def act(dataset: lode.Dataset, action: str, given: Any) -> None:
    if action == "write":
        dataset.write(records(given))
    elif action == "overwrite" and dataset.layout.keys:
        dataset.overwrite(records(given))
    elif action == "overwrite":
        dataset.overwrite(records(given), everything=True)
    elif action == "replace":
        dataset.overwrite([{"day": "new", "n": given}], where=f"n = {given}")
    elif action == "delete":
        dataset.delete(f"n = {given}")
    elif action == "merge":
        dataset.merge(records(list({n: (day, n) for day, n in given}.values())), on=["n"])
    elif action == "compact":
        dataset.compact()
    elif given <= len(dataset.snapshots()):
        dataset.restore(given)


def state(dataset: lode.Dataset, position: Position) -> dict[Any, Counter[Any]]:
    """The rows of each day."""
    found: dict[Any, Counter[Any]] = {}
    if position != BEGINNING:
        for row in dataset.scan(as_of=position.snapshot).read_all().to_pylist():
            found.setdefault(row["day"], Counter())[row["n"]] += 1
    return found


@pytest.mark.parametrize("by", ["day", None])
@settings(max_examples=40, deadline=None)
@given(actions=st.lists(ACTIONS, min_size=1, max_size=6), data=st.data())
def test_every_value_whose_rows_differ_at_both_ends_is_touched(
    by: str | None, actions: list[tuple[str, Any]], data: st.DataObject
) -> None:
    schema = {"day": "string", "n": "int64"}
    layout = None if by is None else lode.HiveLayout(by)
    dataset = lode.Dataset("d", MemoryStore(), codec=lode.Parquet(schema), layout=layout)
    dataset.write(records([("mon", 0)]))
    for action, what in actions:
        act(dataset, action, what)
    positions = [BEGINNING, *(position_of(dataset, each) for each in dataset.snapshots())]
    first, last = sorted(
        (data.draw(st.integers(0, len(positions) - 1)), data.draw(st.integers(1, len(positions) - 1)))
    )
    start, end = positions[first], positions[last]
    if end == BEGINNING:
        return
    before, after = state(dataset, start), state(dataset, end)
    changed = {day for day in {*before, *after} if before.get(day) != after.get(day)}
    found = touched(dataset, "day", start, end)
    assert changed <= found.values
    values, bounds = known_values(dataset.plan(as_of=ExactId(end.snapshot)), "day")
    if values is not None:
        assert set(after) <= values
    elif bounds is not None:
        low, high, nulls = bounds
        assert all(nulls if day is None else low <= day <= high for day in after)
    if not changed and all(each.operation == "compact" for each in dataset.snapshots()[first:last]):
        assert found.values == set()


def test_values_are_read_only_of_files_whose_statistics_leave_them_open() -> None:
    store = CountingStore(MemoryStore())
    schema = {"day": "date", "n": "int64"}
    dataset = lode.Dataset("d", store, codec=lode.Parquet(schema), layout=lode.HiveLayout("day"))
    days = [date(2026, 11, 15), date(2026, 11, 16)]
    dataset.write([{"day": day, "n": 1} for day in days])
    end = position_of(dataset, dataset.latest())
    store.events.clear()
    assert touched(dataset, "day", BEGINNING, end).values == frozenset(days)
    assert not [event for event in store.events if "/data-" in str(event)]


def test_a_column_that_cannot_be_used_is_named_with_a_remedy() -> None:
    schema = pa.schema([("at", pa.timestamp("us")), ("n", pa.int64())])
    dataset = lode.Dataset("d", MemoryStore(), codec=lode.Parquet(schema))
    dataset.write(pa.table({"at": pa.array([0], pa.timestamp("us")), "n": [1]}))
    end = position_of(dataset, dataset.latest())
    with pytest.raises(
        lode.InvalidOptionError, match=r"'at', which is timestamp.* such as the day of a time"
    ):
        touched(dataset, "at", BEGINNING, end)
    with pytest.raises(lode.InvalidOptionError, match=r"'day', which is no column of dataset 'd'"):
        touched(dataset, "day", BEGINNING, end)
    dataset.write(pa.table({"at": pa.nulls(MAX_VALUES + 1, pa.timestamp("us")), "n": range(MAX_VALUES + 1)}))
    with pytest.raises(lode.InvalidOptionError, match=r"more than 10,000 values of 'n' change at once"):
        touched(dataset, "n", BEGINNING, position_of(dataset, dataset.latest()))
