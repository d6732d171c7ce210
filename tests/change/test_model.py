"""A dataset against plain Python: whatever is written, replaced, deleted, merged, compacted or restored.

Two ``Dataset`` objects take turns, so each of them is behind again and again. After each step the rows, their
number, a filtered scan, the plan and an earlier snapshot are compared with lists of dicts.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

import lode
from lode.runtime import REAL
from lode.store.memory import MemoryStore
from support.change.actors import emptied_checkpoint

if TYPE_CHECKING:
    from collections.abc import Callable

Row = dict[str, Any]
Truth = bool | None
Predicate = tuple[str, "Callable[[Row], Truth]"]

AT_ONCE = replace(REAL, background=lambda chore: chore())
COLUMNS: list[tuple[str, pa.DataType]] = [
    ("id", pa.int64()),
    ("p", pa.string()),
    ("n", pa.int32()),
    ("f", pa.float64()),
    ("s", pa.string()),
]
SCHEMA = pa.schema(COLUMNS)
VALUES: dict[str, list[Any]] = {
    "id": [0, 1, 2, 3, 4, 5],
    "p": ["a", "b", "", None, "2026-01-05", "a/b"],
    "n": [-1, 0, 1, 2, None],
    "f": [-1.5, 0.0, 0.5, math.nan, None],
    # Bounds of longer texts are not recorded.
    "s": ["", "x", "y", "x" * 300, None],
}
SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: bool(a == b),
    "<>": lambda a, b: bool(a != b),
    "<": lambda a, b: bool(a < b),
    ">=": lambda a, b: bool(a >= b),
}


def literal(value: Any) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value)


def compared(name: str, sign: str, value: Any) -> Predicate:
    return (
        f"{name} {sign} {literal(value)}",
        lambda row: None if row[name] is None else SIGNS[sign](row[name], value),
    )


def is_null(name: str) -> Predicate:
    return f"{name} IS NULL", lambda row: row[name] is None


def one_of(name: str, values: list[Any]) -> Predicate:
    return (
        f"{name} IN ({', '.join(map(literal, values))})",
        lambda row: None if row[name] is None else row[name] in values,
    )


def negated(of: Predicate) -> Predicate:
    text, holds = of

    def opposite(row: Row) -> Truth:
        found = holds(row)
        return None if found is None else not found

    return f"NOT ({text})", opposite


def both(one: Predicate, two: Predicate) -> Predicate:
    def holds(row: Row) -> Truth:
        found = one[1](row), two[1](row)
        return False if False in found else None if None in found else True

    return f"({one[0]}) AND ({two[0]})", holds


def either(one: Predicate, two: Predicate) -> Predicate:
    text, holds = negated(both(negated(one), negated(two)))
    del text
    return f"({one[0]}) OR ({two[0]})", holds


def plain(row: Row) -> tuple[Any, ...]:
    """A row that can be counted: NaN is no two times the same."""
    values = ("nan" if isinstance(value, float) and math.isnan(value) else value for value in row.values())
    return tuple(sorted(zip(row, values, strict=True)))


def counted(rows: list[Row]) -> Counter[tuple[Any, ...]]:
    return Counter(map(plain, rows))


def partition(row: Row) -> str:
    """A null and an empty text share a partition."""
    return row["p"] or ""


class ChangeMachine(RuleBasedStateMachine):
    """Two views of one dataset; the model is the list of its rows, and of those at each snapshot."""

    codec: str = "parquet"
    keys: tuple[str, ...] = ()

    @initialize()
    def begin(self) -> None:
        self.store = MemoryStore()
        self.damaged: set[str] = set()
        lode.Dataset.create(
            "d", self.store, schema=SCHEMA, codec=self.codec, partition_by=self.keys, runtime=AT_ONCE
        )
        self.views = [self.open(), self.open()]
        self.rows: list[Row] = []
        # By present name, what the column was in the beginning: it tells which values it takes.
        self.columns = {name: name for name in SCHEMA.names}
        self.past: list[tuple[str, list[Row], dict[str, str]]] = []
        self.names = 0
        self.keep()

    def open(self) -> lode.Dataset:
        return lode.Dataset("d", self.store, runtime=AT_ONCE)

    # -- drawing ---------------------------------------------------------------------------------

    def values(self, kind: str) -> list[Any]:
        # JSON has no NaN.
        return VALUES[kind] if self.codec == "parquet" or kind != "f" else [-1.5, 0.0, 0.5, None]

    def draw_rows(self, data: st.DataObject, *, most: int = 5) -> list[Row]:
        kinds = {name: st.sampled_from(self.values(kind)) for name, kind in self.columns.items()}
        found: list[Row] = data.draw(st.lists(st.fixed_dictionaries(kinds), max_size=most), "rows")
        return found

    def draw_where(self, data: st.DataObject) -> Predicate:
        def leaf(name: str) -> st.SearchStrategy[Predicate]:
            values = [
                value
                for value in VALUES[self.columns[name]]
                if value is not None and not (isinstance(value, float) and math.isnan(value))
            ]
            some = st.sampled_from(values)
            return st.one_of(
                st.builds(compared, st.just(name), st.sampled_from(sorted(SIGNS)), some),
                st.just(is_null(name)),
                st.builds(one_of, st.just(name), st.lists(some, min_size=1, max_size=3)),
            )

        leaves = st.sampled_from(sorted(self.columns)).flatmap(leaf)
        conditions = st.recursive(
            leaves,
            lambda inner: st.one_of(
                inner.map(negated), st.builds(both, inner, inner), st.builds(either, inner, inner)
            ),
            max_leaves=3,
        )
        found: Predicate = data.draw(conditions, "where")
        return found

    # -- changes ---------------------------------------------------------------------------------

    def keep(self) -> None:
        """Remember the state at the newest snapshot, if it is a new one."""
        newest = self.open().latest().id
        if not self.past or self.past[-1][0] != newest:
            self.past.append((newest, self.rows, dict(self.columns)))

    def view(self, data: st.DataObject) -> lode.Dataset:
        number = data.draw(st.sampled_from([0, 1, 2]), "view")
        return self.open() if number == 2 else self.views[number]

    @rule(data=st.data())
    def write(self, data: st.DataObject) -> None:
        rows = self.draw_rows(data)
        self.view(data).write(rows, on_conflict="append")
        self.rows = self.rows + rows
        self.keep()

    @rule(data=st.data())
    def overwrite_partitions(self, data: st.DataObject) -> None:
        if not self.keys:
            return
        rows = self.draw_rows(data)
        change = self.view(data).overwrite(rows, on_conflict="redo")
        touched = {partition(row) for row in rows}
        self.replaced(change, lambda row: partition(row) in touched, rows)

    @rule(data=st.data())
    def overwrite_chosen(self, data: st.DataObject) -> None:
        if not self.keys:
            return
        chosen = data.draw(st.lists(st.sampled_from(VALUES["p"]), min_size=1, max_size=2), "partitions")
        touched = {value or "" for value in chosen}
        rows = [row for row in self.draw_rows(data) if partition(row) in touched]
        change = self.view(data).overwrite(
            rows, partitions=[{"p": value} for value in chosen], on_conflict="redo"
        )
        self.replaced(change, lambda row: partition(row) in touched, rows)

    @rule(data=st.data())
    def overwrite_where(self, data: st.DataObject) -> None:
        text, holds = self.draw_where(data)
        rows = [row for row in self.draw_rows(data) if holds(row) is True]
        change = self.view(data).overwrite(rows, where=text)
        self.replaced(change, lambda row: holds(row) is True, rows)

    @rule(data=st.data())
    def overwrite_everything(self, data: st.DataObject) -> None:
        rows = self.draw_rows(data)
        change = self.view(data).overwrite(rows, everything=True, on_conflict="redo")
        self.replaced(change, lambda _: True, rows)

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        text, holds = self.draw_where(data)
        dataset = self.view(data)
        would = dataset.delete(text, dry_run=True)
        change = dataset.delete(text)
        assert (would.removed, would.rows) == (change.removed, change.rows)
        self.replaced(change, lambda row: holds(row) is True, [])

    def replaced(self, change: lode.Change, is_gone: Callable[[Row], bool], rows: list[Row]) -> None:
        kept = [row for row in self.rows if not is_gone(row)]
        assert change.rows == len(kept) + len(rows) - len(self.rows)
        self.rows = kept + rows
        self.keep()

    @rule(
        data=st.data(),
        when_matched=st.sampled_from(["update", "ignore", "delete"]),
        when_not_matched=st.sampled_from(["insert", "ignore"]),
        on=st.sampled_from([["id"], ["id", "p"], ["p"]]),
        as_table=st.booleans(),
    )
    def merge(
        self, data: st.DataObject, when_matched: Any, when_not_matched: Any, on: list[str], as_table: bool
    ) -> None:
        found = {tuple(row[name] for name in on): row for row in self.draw_rows(data)}
        rows = [row for key, row in found.items() if None not in key]
        missing = data.draw(
            st.sets(st.sampled_from(sorted({*self.columns} - {"id", "p"} or {""}))), "missing"
        )
        rows = [{name: value for name, value in row.items() if name not in missing} for row in rows]
        dataset = self.view(data)
        if as_table:
            schema = self.open().schema
            assert schema is not None
            given: Any = pa.Table.from_pylist(
                rows, pa.schema([field for field in schema if field.name not in missing])
            )
        else:
            given = rows
        options: Any = {"on": on, "when_matched": when_matched, "when_not_matched": when_not_matched}
        would = dataset.merge(given, **options, dry_run=True)
        change = dataset.merge(given, **options)
        source = {tuple(row[name] for name in on): row for row in rows}
        after: list[Row] = []
        matched = set()
        for row in self.rows:
            key = tuple(row[name] for name in on)
            if key in source:
                matched.add(key)
                if when_matched == "delete":
                    continue
                after.append({**row, **source[key]} if when_matched == "update" else row)
            else:
                after.append(row)
        if when_not_matched == "insert":
            empty = dict.fromkeys(self.columns)
            after += [{**empty, **row} for key, row in source.items() if key not in matched]
        assert change.rows == would.rows == len(after) - len(self.rows)
        self.rows = after
        self.keep()

    @rule(
        data=st.data(),
        size=st.sampled_from([1, 3000, 6000, 1 << 20]),
        sort_by=st.sampled_from([None, ["id"], ["p", "id"]]),
    )
    def compact(self, data: st.DataObject, size: int, sort_by: list[str] | None) -> None:
        dataset = self.view(data)
        where = self.draw_where(data)[0] if data.draw(st.booleans(), "filtered") else None
        before = len(self.open().plan().files)
        change = dataset.compact(target_file_bytes=size, sort_by=sort_by, where=where)
        assert change.rows == 0
        assert change.removed.files == 0 or len(self.open().plan().files) <= before
        self.keep()

    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        id, rows, columns = data.draw(st.sampled_from(self.past), "snapshot")
        change = self.view(data).restore(id)
        assert change.rows == len(rows) - len(self.rows)
        self.rows, self.columns = rows, dict(columns)
        self.keep()

    @rule(data=st.data())
    def add_column(self, data: st.DataObject) -> None:
        kind = data.draw(st.sampled_from(["n", "f", "s"]), "kind")
        # Names of dropped and renamed columns come back.
        name = data.draw(st.sampled_from(["n", "f", "s", "new"]), "name")
        if name in self.columns or len(self.columns) > 6:
            return
        self.view(data).evolve(add={name: SCHEMA.field(kind).type})
        self.columns[name] = kind
        self.rows = [{**row, name: None} for row in self.rows]
        self.keep()

    @rule(data=st.data())
    def rename_column(self, data: st.DataObject) -> None:
        old = data.draw(st.sampled_from(sorted(self.columns)), "old")
        new = data.draw(st.sampled_from(["n", "f", "s", "new", "newer"]), "new")
        if old in ("id", "p") or new in self.columns:
            return
        self.view(data).evolve(rename={old: new})
        renamed = {name: new if name == old else name for name in self.columns}
        self.columns = {renamed[name]: kind for name, kind in self.columns.items()}
        self.rows = [{renamed[name]: value for name, value in row.items()} for row in self.rows]
        self.keep()

    @rule(data=st.data())
    def drop_column(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.columns)), "name")
        if name in ("id", "p"):
            return
        self.view(data).evolve(drop=[name])
        del self.columns[name]
        self.rows = [{each: value for each, value in row.items() if each != name} for row in self.rows]
        self.keep()

    @rule(data=st.data())
    def widen_column(self, data: st.DataObject) -> None:
        schema = self.open().schema
        assert schema is not None
        narrow = [field.name for field in schema if pa.types.is_int32(field.type)]
        if not narrow:
            return
        name = data.draw(st.sampled_from(narrow), "name")
        wider: Any = data.draw(st.sampled_from([pa.int64(), pa.float64()]), "type")
        self.view(data).evolve(widen={name: wider})
        self.keep()

    # -- what must hold --------------------------------------------------------------------------

    @rule(data=st.data())
    def travel_in_time(self, data: st.DataObject) -> None:
        id, rows, _ = data.draw(st.sampled_from(self.past), "snapshot")
        dataset = self.view(data)
        assert counted(dataset.scan(as_of=id).read_all().to_pylist()) == counted(rows)
        assert dataset.count(as_of=id) == len(rows)

    @rule(data=st.data())
    def select(self, data: st.DataObject) -> None:
        text, holds = self.draw_where(data)
        expected = [row for row in self.rows if holds(row) is True]
        dataset = self.view(data)
        assert counted(dataset.scan(where=text).read_all().to_pylist()) == counted(expected), text
        assert dataset.count(where=text) == len(expected)

    @invariant()
    def the_rows_are_those_of_the_model(self) -> None:
        if not hasattr(self, "rows"):
            return
        for dataset in (*self.views, self.open()):
            found = dataset.scan().read_all()
            assert found.column_names == list(self.columns)
            assert counted(found.to_pylist()) == counted(self.rows)
            plan = dataset.plan()
            assert dataset.count() == plan.row_count == len(self.rows)
            assert plan.size_bytes == sum(len(self.store.get(path)) for path in plan.paths)

    def teardown(self) -> None:
        if not hasattr(self, "past"):
            return
        dataset = self.open()
        for id, rows, _ in self.past:
            assert counted(dataset.scan(as_of=id).read_all().to_pylist()) == counted(rows)
        assert [snapshot.id for snapshot in dataset.snapshots()] == [id for id, _, _ in self.past]
        problems = lode.verify(dataset).problems
        assert {problem.path for problem in problems} <= self.damaged


class CheckpointMachine(ChangeMachine):
    """The same with a checkpoint at every other snapshot, and checkpoints that are damaged or missing."""

    keys = ("p",)

    @rule(data=st.data(), damage=st.sampled_from(["cut", "garbage", "another", "emptied", "missing"]))
    def damage_checkpoint(self, data: st.DataObject, damage: str) -> None:
        paths = [entry.path for entry in self.store.list("datasets/d/state/")]
        if not paths:
            return
        path = data.draw(st.sampled_from(paths), "checkpoint")
        content = {
            "cut": self.store.get(path)[:-7],
            "garbage": b"garbage",
            "another": self.store.get(data.draw(st.sampled_from(paths), "other")),
            "emptied": emptied_checkpoint(self.store.get(path)) if path not in self.damaged else b"",
            "missing": None,
        }[damage]
        self.damaged.add(path)
        self.store.delete(path)
        if content is not None:
            self.store.put(path, content)


def run(machine: type[ChangeMachine], examples: int) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=20,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            # A failing step is found again by its draws; shrinking takes minutes.
            phases=[Phase.explicit, Phase.reuse, Phase.generate],
        ),
    )


@pytest.mark.parametrize("codec", ["parquet", "jsonl"])
@pytest.mark.parametrize("keys", [(), ("p",)], ids=["whole", "partitioned"])
def test_a_dataset_is_what_plain_python_says_after_any_changes(codec: str, keys: tuple[str, ...]) -> None:
    run(type("Machine", (ChangeMachine,), {"codec": codec, "keys": keys}), 8)


def test_checkpoints_change_nothing_be_they_damaged_or_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lode.read.state.CHECKPOINT_STEP", 2)
    run(CheckpointMachine, 10)
