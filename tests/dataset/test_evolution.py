"""The columns of a dataset change without rewriting files, and only on request."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

import lode
from lode.evolution import is_wider
from lode.store import CountingStore, MemoryStore
from support.stores import contents

if TYPE_CHECKING:
    from collections.abc import Callable

CODECS = [lode.Parquet, lode.ArrowIPC, lode.JSONL]


def events(store: lode.Store, make: Any = lode.Parquet, **options: Any) -> lode.Dataset:
    dataset = lode.Dataset("events", store, codec=make({"id": "int32!", "v": "string"}), **options)
    dataset.write([{"id": 1, "v": "one"}])
    return dataset


def struct(members: dict[str, Any]) -> Any:
    return pa.struct(list(members.items()))


def rows(dataset: lode.Dataset, **options: Any) -> list[dict[str, Any]]:
    return lode.Dataset(dataset.id, dataset.store).scan(**options).read_all().to_pylist()


# -- the five changes ----------------------------------------------------------------------------


@pytest.mark.parametrize("make", CODECS)
def test_an_added_column_is_null_in_rows_that_exist(memory: CountingStore, make: Any) -> None:
    dataset = events(memory, make)
    snapshot = dataset.evolve(add={"country": "string"})
    assert (snapshot.manifest.operation, snapshot.row_count, snapshot.files) == ("evolve", 0, ())
    lode.Dataset("events", memory).write([{"id": 2, "v": "two", "country": "no"}])
    assert rows(dataset) == [{"id": 1, "v": "one", "country": None}, {"id": 2, "v": "two", "country": "no"}]
    assert rows(dataset, where=pc.field("country").is_null(), columns=["id"]) == [{"id": 1}]


@pytest.mark.parametrize("make", CODECS)
def test_a_widened_column_holds_larger_values(memory: CountingStore, make: Any) -> None:
    dataset = events(memory, make)
    dataset.evolve(widen={"id": "int64"})
    lode.Dataset("events", memory).write([{"id": 2**40, "v": None}])
    assert [row["id"] for row in rows(dataset)] == [1, 2**40]
    assert rows(dataset, where=pc.field("id") > 2**33, columns=["id"]) == [{"id": 2**40}]


@pytest.mark.parametrize("make", CODECS)
def test_a_relaxed_column_takes_nulls(memory: CountingStore, make: Any) -> None:
    dataset = events(memory, make)
    dataset.evolve(relax=["id"])
    lode.Dataset("events", memory).write([{"id": None, "v": "x"}])
    assert [row["id"] for row in rows(dataset)] == [1, None]


@pytest.mark.parametrize("make", CODECS)
def test_a_renamed_column_keeps_its_values(memory: CountingStore, make: Any) -> None:
    dataset = events(memory, make)
    dataset.evolve(rename={"v": "label"})
    lode.Dataset("events", memory).write([{"id": 2, "label": "two"}])
    assert rows(dataset) == [{"id": 1, "label": "one"}, {"id": 2, "label": "two"}]
    assert rows(dataset, where=pc.field("label") == "one") == [{"id": 1, "label": "one"}]
    assert rows(dataset, columns=["label"]) == [{"label": "one"}, {"label": "two"}]


@pytest.mark.parametrize("make", CODECS)
def test_a_dropped_column_is_gone_and_its_name_is_free_again(memory: CountingStore, make: Any) -> None:
    dataset = events(memory, make)
    dataset.evolve(drop=["v"])
    assert rows(dataset) == [{"id": 1}]
    dataset.evolve(add={"v": "int64"})
    lode.Dataset("events", memory).write([{"id": 2, "v": 7}])
    assert rows(dataset) == [{"id": 1, "v": None}, {"id": 2, "v": 7}]
    assert rows(dataset, where=pc.field("v") == 7) == [{"id": 2, "v": 7}]


@pytest.mark.parametrize("make", CODECS)
def test_two_columns_may_swap_their_names(memory: CountingStore, make: Any) -> None:
    dataset = lode.Dataset("events", memory, codec=make({"a": "string", "b": "string"}))
    dataset.write([{"a": "1", "b": "2"}])
    dataset.evolve(rename={"a": "t", "b": "a"})
    dataset.evolve(rename={"t": "b"})
    assert rows(dataset) == [{"b": "1", "a": "2"}]
    assert rows(dataset, where=pc.field("a") == "2", columns=["a"]) == [{"a": "2"}]


def test_time_travel_sees_the_columns_of_that_time(memory: CountingStore) -> None:
    dataset = events(memory)
    before = dataset.latest()
    dataset.evolve(rename={"v": "label"}, add={"n": "int64"})
    assert rows(dataset, as_of=before.id) == [{"id": 1, "v": "one"}]
    assert rows(dataset) == [{"id": 1, "label": "one", "n": None}]
    assert dataset.read(before) == pa.table(
        {"id": [1], "v": ["one"]}, lode.Parquet({"id": "int32!", "v": "string"}).schema
    )


def test_no_file_is_rewritten_and_the_calls_do_not_grow_with_the_dataset(memory: CountingStore) -> None:
    dataset = events(memory)
    # Fewer than a history segment has: it is written in the background, and would be counted.
    for number in range(12):
        dataset.write([{"id": number, "v": None}])
    before = {path: data for path, data in contents(memory).items() if "/data/" in path}
    memory.reset()
    dataset.evolve(add={"n": "int64"}, rename={"v": "w"})
    assert {path: data for path, data in contents(memory).items() if "/data/" in path} == before
    assert memory.total <= 6


@pytest.mark.parametrize("create", [True, False])
def test_the_object_that_changed_the_columns_writes_the_new_ones(memory: CountingStore, create: bool) -> None:
    schema = {"id": "int32!", "v": "string"}
    dataset = lode.Dataset.create("events", memory, schema=schema) if create else events(memory)
    dataset.evolve(rename={"v": "label"}, drop=["id"], add={"n": "int64"})
    dataset.write([{"label": "x", "n": 1}])
    assert rows(dataset)[-1] == {"label": "x", "n": 1}


def test_a_rename_of_a_lake_without_definitions_keeps_the_values(memory: CountingStore) -> None:
    dataset = events(memory)
    for path, data in contents(memory).items():
        if path.endswith("manifest.json"):
            found = json.loads(data)
            del found["x"]
            memory.delete(path)
            memory.put(path, json.dumps(found).encode())
        elif "/definition/" in path:
            memory.delete(path)
    lode.Dataset("events", memory).evolve(rename={"v": "label"})
    assert rows(dataset) == [{"id": 1, "label": "one"}]


def test_a_change_without_effect_makes_no_snapshot(memory: CountingStore) -> None:
    dataset = events(memory)
    first = dataset.evolve(add={"n": "int64"}, relax=["id"], widen={"id": "int64"})
    assert dataset.evolve(add={"n": "int64"}, relax=["id"], widen={"id": "int64"}) == first


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"add": {"v": "int64"}}, "'v' is there already as string"),
        ({"add": {"n": "int64!"}}, "'n' cannot be added or widened as required"),
        ({"add": {"n": "integer"}}, "there is no type 'integer'"),
        ({"widen": {"v": "int64"}}, "'v' is string, which cannot be widened to int64"),
        ({"widen": {"n": "int64"}}, "no column 'n'"),
        ({"relax": ["n"]}, "no column 'n'"),
        ({"relax": "v"}, r"relax=\['v'\]"),
        ({"drop": "v"}, r"drop=\['v'\]"),
        ({"drop": ["n"]}, "no column 'n'"),
        ({"drop": ["v", "id"]}, "'id' is the only one"),
        ({"rename": {"v": "id"}}, "'v' cannot be renamed to 'id'"),
        ({"rename": {"n": "m"}}, "no column 'n'"),
        ({"rename": {"v": ""}}, "'v' cannot be renamed to ''"),
    ],
)
def test_a_change_that_cannot_be_made_changes_nothing(
    memory: CountingStore, change: dict[str, Any], complaint: str
) -> None:
    dataset = events(memory)
    before = contents(memory)
    with pytest.raises(lode.LodeError, match=complaint):
        dataset.evolve(**change)
    assert contents(memory) == before


@pytest.mark.parametrize("change", [{"drop": ["v"]}, {"rename": {"v": "w"}}])
def test_a_partition_key_is_neither_renamed_nor_dropped(memory: CountingStore, change: Any) -> None:
    dataset = events(memory, layout=lode.HiveLayout("v"))
    with pytest.raises(lode.InvalidOptionError, match="'v' is a partition key"):
        dataset.evolve(**change)


def test_a_dataset_without_a_schema_has_nothing_to_evolve(memory: CountingStore) -> None:
    lode.Dataset("blobs", memory).write(b"x")
    with pytest.raises(lode.InvalidOptionError, match="has no schema"):
        lode.Dataset("blobs", memory).evolve(add={"n": "int64"})
    with pytest.raises(lode.NoSnapshotsError):
        lode.Dataset("nothing", memory).evolve(add={"n": "int64"})


# -- write(evolve=True) --------------------------------------------------------------------------


def test_evolve_adds_new_columns_and_wider_types_of_the_data(memory: CountingStore) -> None:
    dataset = events(memory)
    table = pa.table({"id": [2**40], "v": ["x"], "n": [1.5]})
    with pytest.raises(lode.SchemaViolationError):
        dataset.write(table)
    snapshot = dataset.write(table, evolve=True)
    assert snapshot.row_count == 1
    assert rows(dataset) == [{"id": 1, "v": "one", "n": None}, {"id": 2**40, "v": "x", "n": 1.5}]


def test_evolve_adds_the_columns_of_a_wider_schema(memory: CountingStore) -> None:
    events(memory)
    wider = lode.Parquet({"id": "int64", "v": "string", "n": "float64"})
    dataset = lode.Dataset("events", memory, codec=wider)
    with pytest.raises(lode.SchemaViolationError, match=r"'n' \(double\) is not one of"):
        dataset.write([{"id": 2, "v": "x", "n": 0.5}])
    dataset.write([{"id": None, "v": "x", "n": 0.5}], evolve=True)
    assert rows(dataset)[1] == {"id": None, "v": "x", "n": 0.5}


def test_evolve_merges_the_members_of_structs(memory: CountingStore) -> None:
    def of(*names: str) -> pa.Schema:
        inner = pa.struct([(name, pa.int64()) for name in names])
        return pa.schema([("s", inner), ("many", pa.list_(inner))])

    one, other = ({"s": {name: 1}, "many": [{name: 1}]} for name in "bc")
    for names, row in (("ab", one), ("ac", other)):
        table = pa.Table.from_pylist([row], schema=of(*names))
        lode.Dataset("structs", memory, codec="parquet").write(table, evolve=True)
    found = lode.Dataset("structs", memory).scan().read_all()
    assert found.schema == of("a", "b", "c")
    assert [row["s"] for row in found.to_pylist()] == [
        {"a": None, "b": 1, "c": None},
        {"a": None, "b": None, "c": 1},
    ]


def test_a_transaction_applies_its_own_evolution(memory: CountingStore) -> None:
    dataset = events(memory)
    with dataset.transaction(evolve=lambda now: replace(now, description="visits")) as transaction:
        transaction.stage([{"id": 2, "v": "two"}])
        transaction.commit()
    assert lode.Dataset("events", memory).definition.description == "visits"


def test_incompatible_types_are_refused_even_with_evolve(memory: CountingStore) -> None:
    dataset = events(memory)
    with pytest.raises(lode.SchemaViolationError, match="'v' is string, which cannot be widened to int64"):
        dataset.write(pa.table({"id": [2], "v": [7]}), evolve=True)


# -- at the same time ----------------------------------------------------------------------------


class Interrupted(CountingStore):
    """A store that runs a callback just before the first swap of the pointer."""

    def __init__(self, inner: lode.Store, meanwhile: Callable[[], object]) -> None:
        super().__init__(inner)
        self._meanwhile: Callable[[], object] | None = meanwhile

    def _compare_and_swap(self, path: str, expected: bytes | None, replacement: bytes) -> bool:
        if path.endswith("/latest") and self._meanwhile is not None:
            meanwhile, self._meanwhile = self._meanwhile, None
            meanwhile()
        return super()._compare_and_swap(path, expected, replacement)


def interrupted(memory: lode.Store, meanwhile: Callable[[], object]) -> lode.Dataset:
    return lode.Dataset("events", Interrupted(memory, meanwhile))


def test_two_concurrent_evolutions_both_land_if_they_are_compatible(memory: CountingStore) -> None:
    dataset = events(memory)
    interrupted(memory, lambda: dataset.evolve(add={"a": "int64"})).evolve(
        add={"b": "int64"}, rename={"v": "w"}
    )
    assert lode.Dataset("events", memory).schema.names == ["id", "w", "a", "b"]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"add": {"a": "int64"}}, {"add": {"a": "string"}}),
        ({"drop": ["v"]}, {"rename": {"v": "w"}}),
        ({"rename": {"v": "w"}}, {"rename": {"v": "u"}}),
        ({"drop": ["id"]}, {"relax": ["id"]}),
    ],
)
def test_of_two_incompatible_evolutions_the_second_conflicts(
    memory: CountingStore, first: Any, second: Any
) -> None:
    dataset = events(memory)
    with pytest.raises(lode.SnapshotConflictError, match="changed the columns first"):
        interrupted(memory, lambda: dataset.evolve(**first)).evolve(**second)
    assert len(dataset.snapshots()) == 2


@pytest.mark.parametrize(
    "change", [{"add": {"a": "int64"}}, {"widen": {"id": "int64"}}, {"relax": ["id"]}, {"drop": ["v"]}]
)
@pytest.mark.parametrize("make", CODECS)
def test_a_write_during_an_evolution_lands_if_its_files_still_fit(
    memory: CountingStore, make: Any, change: Any
) -> None:
    dataset = events(memory, make)
    interrupted(memory, lambda: dataset.evolve(**change)).write([{"id": 2, "v": "two"}])
    assert [row["id"] for row in rows(dataset)] == [1, 2]
    assert lode.verify(dataset).ok


def test_a_write_during_a_rename_of_its_column_is_refused_and_not_lost(memory: CountingStore) -> None:
    dataset = events(memory)
    with pytest.raises(lode.SchemaViolationError, match=r"'v'.*which has id, w"):
        interrupted(memory, lambda: dataset.evolve(rename={"v": "w"})).write([{"id": 2, "v": "two"}])
    stream = interrupted(memory, lambda: dataset.evolve(rename={"w": "v"}))
    with pytest.raises(lode.SchemaViolationError, match="'w' of dataset 'events' became 'v'"):
        stream.write(row for row in [{"id": 2, "w": "two"}])
    dataset.evolve(rename={"v": "w"})
    assert rows(dataset) == [{"id": 1, "w": "one"}]


def test_a_write_during_a_drop_and_readd_of_its_column_is_staged_again(memory: CountingStore) -> None:
    dataset = events(memory)

    def again() -> None:
        dataset.evolve(drop=["v"])
        dataset.evolve(add={"v": "string"})

    interrupted(memory, again).write([{"id": 2, "v": "two"}])
    assert rows(dataset) == [{"id": 1, "v": None}, {"id": 2, "v": "two"}]


def test_an_evolution_conflicts_with_no_write(memory: CountingStore) -> None:
    dataset = events(memory)
    snapshot = interrupted(memory, lambda: dataset.write([{"id": 2, "v": "two"}])).evolve(add={"n": "int64"})
    assert (snapshot.rebases, snapshot.sequence) == (1, 3)
    # The writer that has not seen the evolution follows it without a conflict, because it touched no data.
    assert dataset.write([{"id": 3, "v": "three"}]).sequence == 4


# -- which types are wider -----------------------------------------------------------------------

WIDENINGS: list[tuple[Any, Any, Any]] = [
    (pa.int8(), pa.int16(), -5),
    (pa.int32(), pa.int64(), 2**31 - 1),
    (pa.uint8(), pa.int16(), 200),
    (pa.uint32(), pa.int64(), 2**32 - 1),
    (pa.uint32(), pa.uint64(), 2**32 - 1),
    (pa.int32(), pa.float64(), -(2**31)),
    (pa.int32(), pa.decimal128(12, 2), 7),
    (pa.float32(), pa.float64(), 0.5),
    (pa.decimal128(5, 2), pa.decimal128(9, 4), Decimal("1.25")),
    (pa.timestamp("s", "UTC"), pa.timestamp("us", "UTC"), 1_700_000_000),
    (pa.timestamp("ms"), pa.timestamp("us"), 1_700_000_000_123),
    (pa.string(), pa.large_string(), "x"),
    (pa.binary(), pa.large_binary(), b"x"),
    (pa.list_(pa.int32()), pa.list_(pa.int64()), [1, None]),
    (struct({"a": pa.int32()}), struct({"a": pa.int64(), "b": pa.string()}), {"a": 1}),
    (
        pa.list_(struct({"a": pa.int32()})),
        pa.list_(struct({"a": pa.int64(), "b": pa.string()})),
        [{"a": 1}],
    ),
]


@pytest.mark.parametrize("make", [lode.Parquet, lode.ArrowIPC])
@pytest.mark.parametrize(("narrow", "wide", "value"), WIDENINGS, ids=str)
def test_a_wider_type_reads_every_value_of_the_narrower(
    memory: CountingStore, make: Any, narrow: Any, wide: Any, value: Any
) -> None:
    assert is_wider(narrow, wide)
    assert not is_wider(wide, narrow) or narrow == wide or str(wide).startswith("large")
    old = pa.table({"v": pa.array([value, None], narrow)})
    dataset = lode.Dataset("events", memory, codec=make(old.schema))
    dataset.write(old)
    dataset.evolve(widen={"v": wide})
    found = lode.Dataset("events", memory).scan().read_all()
    assert found.schema.field("v").type == wide
    expected = old.column("v").to_pylist()
    for want, got in zip(expected, found.column("v").to_pylist(), strict=True):
        assert _plain(want) == _plain(got)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items() if item is not None}
    return [_plain(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        *(
            (pa.int64(), pa.int32()),
            (pa.int64(), pa.float64()),
            (pa.string(), pa.int64()),
            (pa.int64(), pa.string()),
        ),
        *((pa.timestamp("us"), pa.timestamp("us", "UTC")), (pa.timestamp("us"), pa.timestamp("ns"))),
        *((pa.timestamp("us"), pa.timestamp("ms")), (pa.bool_(), pa.int8()), (pa.uint64(), pa.int64())),
        *(
            (pa.decimal128(5, 2), pa.decimal128(5, 3)),
            (pa.float64(), pa.float32()),
            (pa.date32(), pa.string()),
        ),
        (struct({"a": pa.int32(), "b": pa.int32()}), struct({"a": pa.int32()})),
        (struct({"a": pa.int32()}), pa.struct([pa.field("a", pa.int32(), nullable=False)])),
        (pa.list_(pa.int32()), pa.list_(pa.field("item", pa.int32(), nullable=False))),
    ],
    ids=str,
)
def test_a_type_that_could_lose_a_value_is_not_wider(narrow: Any, wide: Any) -> None:
    assert not is_wider(narrow, wide)


# -- any sequence of changes -------------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "c", "d"])
KINDS = st.sampled_from(["int32", "int64", "string"])


class Columns(RuleBasedStateMachine):
    """Changes and writes in any order, against rows kept by column identity."""

    def __init__(self) -> None:
        super().__init__()
        self.store = MemoryStore()
        self.columns: dict[str, tuple[int, str]] = {}
        self.stored: list[dict[int, Any]] = []
        self.count = 0

    @initialize(codec=st.sampled_from(CODECS))
    def begin(self, codec: Any) -> None:
        self.dataset = lode.Dataset.create("events", self.store, codec=codec({"key": "int64!"}))
        self.columns = {"key": (0, "int64")}

    @rule(name=NAMES, kind=KINDS)
    def add(self, name: str, kind: str) -> None:
        if name in self.columns:
            return
        self.count += 1
        self.columns[name] = (self.count, kind)
        self.dataset.evolve(add={name: kind})

    @rule(name=NAMES)
    def drop(self, name: str) -> None:
        if name in self.columns:
            del self.columns[name]
            self.dataset.evolve(drop=[name])

    @rule(name=NAMES, new=NAMES)
    def rename(self, name: str, new: str) -> None:
        if name in self.columns and new not in self.columns:
            self.columns = {new if n == name else n: column for n, column in self.columns.items()}
            self.dataset.evolve(rename={name: new})

    @rule(name=NAMES)
    def widen(self, name: str) -> None:
        if name in self.columns and self.columns[name][1] == "int32":
            self.columns[name] = (self.columns[name][0], "int64")
            self.dataset.evolve(widen={name: "int64"})

    @rule(fresh=st.booleans(), some=st.sets(NAMES))
    def write(self, fresh: bool, some: set[str]) -> None:
        if fresh:
            self.dataset = lode.Dataset("events", self.store)
        row: dict[str, Any] = {"key": len(self.stored)}
        for name in some & self.columns.keys():
            row[name] = f"{name}!" if self.columns[name][1] == "string" else len(self.stored) * 10
        self.dataset.write([row])
        self.stored.append({self.columns[name][0]: value for name, value in row.items()})

    @precondition(lambda self: self.stored)
    @rule(name=NAMES)
    def filter(self, name: str) -> None:
        if name in self.columns:
            present: Any = pc.field(name).is_valid()
            found = self.dataset.scan(where=present, columns=["key"]).read_all().to_pylist()
            id = self.columns[name][0]
            assert [row["key"] for row in found] == [row[0] for row in self.stored if row.get(id) is not None]

    @invariant()
    def reads_what_was_written(self) -> None:
        if not self.columns:
            return
        found = lode.Dataset("events", self.store).scan().read_all().to_pylist()
        assert found == [{n: row.get(id) for n, (id, _) in self.columns.items()} for row in self.stored]


Columns.TestCase.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)
TestColumns = Columns.TestCase


def test_widening_to_a_narrower_type_changes_nothing_and_to_another_kind_is_refused() -> None:
    dataset = lode.Dataset.create("d", MemoryStore(), schema={"n": "int64"})
    before = dataset.latest()
    dataset.evolve(widen={"n": "int32"})
    assert dataset.latest() == before
    assert dataset.schema == pa.schema({"n": pa.int64()})
    with pytest.raises(lode.SchemaViolationError, match="cannot be widened to string"):
        dataset.evolve(widen={"n": "string"})
