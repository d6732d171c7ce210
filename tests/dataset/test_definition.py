"""The definition of a dataset is stored and read, and every write is checked against it."""

from __future__ import annotations

import json
import pickle
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lode
from lode.definition import Definition, decode_definition
from lode.runtime import Runtime
from lode.store import CountingStore, MemoryStore
from support.stores import contents, names

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = {"day": "string!", "n": "int32"}
LAYOUTS = [lode.DefaultLayout(), lode.HiveLayout("day"), lode.FlatLayout()]
ROWS = [{"day": "mon", "n": 1}, {"day": "tue", "n": 2}]


def visits(store: lode.Store | str, **options: Any) -> lode.Dataset:
    chosen: dict[str, Any] = {"codec": lode.Parquet(SCHEMA), "layout": lode.HiveLayout("day")}
    return lode.Dataset("visits", store, **(chosen | options))


def written(store: lode.Store) -> lode.Dataset:
    dataset = visits(store)
    dataset.write(ROWS)
    return dataset


def without_definitions(store: lode.Store) -> None:
    """Make a lake look as 0.1 wrote it, with whole manifests in partitions."""
    found = contents(store)
    whole = {path.split("/")[-2]: data for path, data in found.items() if "/segments/" in path}
    for path, data in found.items():
        if path.endswith(("manifest.json", "intent.json")):
            manifest = json.loads(whole.get(path.split("/")[-2], data))
            manifest.pop("x", None)
            store.delete(path)
            store.put(path, json.dumps(manifest).encode())
        elif "/definition/" in path:
            store.delete(path)


# -- stored --------------------------------------------------------------------------------------


def test_every_snapshot_refers_to_the_definition_by_its_digest(memory: CountingStore) -> None:
    dataset = written(memory)
    snapshot = dataset.write(ROWS)
    digest = snapshot.manifest.definition
    assert digest is not None
    stored = decode_definition(contents(memory)[f"datasets/visits/definition/{digest}.json"], digest, "here")
    assert stored == dataset.definition
    assert [s.manifest.definition for s in dataset.snapshots()] == [digest, digest]


def test_a_definition_is_readable(memory: CountingStore) -> None:
    stored = json.loads(written(memory).definition.data)
    assert (stored["layout"], stored["keys"], stored["codec"]) == ("hive", ["day"], "parquet")
    assert stored["columns"] == [
        {"id": 1, "name": "day", "type": "string", "nullable": False},
        {"id": 2, "name": "n", "type": "int32"},
    ]


def test_two_creators_of_the_same_definition_store_one_object(memory: CountingStore) -> None:
    transactions = [visits(memory).transaction() for _ in range(2)]
    for transaction, row in zip(transactions, ROWS, strict=True):
        transaction.stage([row])
        transaction.commit()
    assert sum("/definition/" in path for path in contents(memory)) == 1


def test_a_warm_write_neither_reads_nor_writes_the_definition(memory: CountingStore) -> None:
    dataset = written(memory)
    memory.reset()
    dataset.write(ROWS[:1])
    assert [path for _, path in memory.events if "/definition/" in path] == []
    assert memory.total == 5


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (lambda data: data[:-3], "damaged"),
        (lambda _: b"", "damaged"),
        (lambda data: data.replace(b"int32", b"int64"), "damaged"),
        (None, "missing"),
    ],
)
def test_a_damaged_definition_is_one_error_that_names_it(
    memory: CountingStore, damage: Any, complaint: str
) -> None:
    path = f"datasets/visits/definition/{written(memory).definition.digest}.json"
    data = memory.get(path)
    memory.delete(path)
    if damage is not None:
        memory.put(path, damage(data))
    uses: list[Any] = [lambda d: d.scan(), lambda d: d.write(ROWS), lambda d: d.schema]
    for use in uses:
        with pytest.raises(lode.ManifestInvalidError, match=complaint) as caught:
            use(lode.Dataset("visits", memory))
        assert path in str(caught.value)


def test_a_definition_that_needs_an_unknown_feature_is_refused() -> None:
    unknown = Definition(codec="parquet", features=("time-machine",))
    with pytest.raises(lode.ManifestInvalidError, match=r"'time-machine'.*upgrade lode"):
        decode_definition(unknown.data, unknown.digest, "here")


# -- opening -------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS, ids=repr)
@pytest.mark.parametrize("codec", [lode.Parquet(SCHEMA), lode.JSONL(SCHEMA), lode.ArrowIPC(SCHEMA)], ids=repr)
def test_a_dataset_opens_as_it_is_stored(memory: CountingStore, layout: Any, codec: Any) -> None:
    compressor = "zstd" if codec.name != "parquet" else "noop"
    visits(memory, codec=codec, layout=layout, compressor=compressor, checksum="sha256").write(ROWS)
    opened = lode.Dataset("visits", memory)
    assert opened.layout == layout
    assert opened.schema == codec.schema
    assert sorted(row["n"] for row in opened.scan().read_all().to_pylist()) == [1, 2]
    snapshot = opened.write([{"day": "wed", "n": 3}])
    assert (snapshot.sequence, snapshot.manifest.checksum_algorithm) == (2, "sha256")
    assert (snapshot.manifest.codec, snapshot.manifest.compressor) == (codec.name, compressor)
    assert opened.scan(where=pc.field("n") > 2).read_all().to_pylist() == [{"day": "wed", "n": 3}]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"layout": lode.DefaultLayout()}, r"layout 'hive'.*'default'"),
        ({"layout": lode.FlatLayout()}, r"layout 'hive'.*'flat'"),
        ({"layout": lode.HiveLayout("n")}, r"partition keys 'day'.*'n'"),
        ({"layout": lode.HiveLayout("day", "n")}, r"partition keys 'day'.*'day, n'"),
        ({"codec": "jsonl"}, r"codec 'parquet'.*'jsonl'"),
        ({"codec": "arrow"}, r"codec 'parquet'.*'arrow'"),
        ({"compressor": "gzip"}, r"compressor 'noop'.*'gzip'"),
    ],
)
def test_a_contradicting_option_is_refused_with_both_values(
    memory: CountingStore, options: dict[str, Any], complaint: str
) -> None:
    written(memory)
    before = contents(memory)
    uses: list[Any] = [
        lambda d: d.write(ROWS),
        lambda d: d.transaction(),
        lambda d: d.scan(),
        lambda d: d.snapshots(),
        lambda d: d.evolve(add={"x": "int64"}),
    ]
    for use in uses:
        with pytest.raises(lode.ComponentMismatchError, match=complaint):
            use(lode.Dataset("visits", memory, **options))
    assert contents(memory) == before


@pytest.mark.parametrize("there", LAYOUTS, ids=repr)
@pytest.mark.parametrize("given", LAYOUTS, ids=repr)
@pytest.mark.parametrize("pointer", ["there", "lost", "dangling"])
def test_no_layout_ever_makes_a_second_root(
    memory: CountingStore, there: Any, given: Any, pointer: str
) -> None:
    first = visits(memory, layout=there).write(ROWS)
    path = there.chain("visits").pointer
    if pointer != "there":
        memory.delete(path)
    if pointer == "dangling":
        memory.put(path, b"a-foreign-snapshot")
    # Another root has another pointer: when that is lost, only a listing of the store would find it.
    unseen = pointer == "lost" and given.chain("visits").root != there.chain("visits").root
    # A writer gives the one that left a dangling pointer three seconds.
    dataset = visits(memory, layout=given, runtime=Runtime(sleep=lambda _: None))
    if given == there:
        assert dataset.write(ROWS).parent_id == first.id
    elif not unseen:
        with pytest.raises(lode.ComponentMismatchError):
            dataset.write(ROWS)
    assert lode.Dataset("visits", memory).layout == there or unseen


def test_a_dataset_created_concurrently_is_opened_as_stored(memory: CountingStore) -> None:
    early = lode.Dataset("visits", memory)
    assert early.snapshots() == []
    written(memory)
    assert early.layout == lode.HiveLayout("day")
    assert early.write(ROWS).sequence == 2


def test_a_transaction_begun_before_a_different_create_is_refused(
    memory: CountingStore,
) -> None:
    transaction = lode.Dataset("visits", memory, codec="parquet").transaction()
    transaction.stage(pa.table({"day": ["mon"], "n": [1]}))
    written(memory)
    with pytest.raises(lode.ComponentMismatchError):
        transaction.commit()
    assert [s.row_count for s in lode.Dataset("visits", memory).snapshots()] == [2]


def test_cold_opening_costs_one_read_more_than_the_head(memory: CountingStore) -> None:
    written(memory)
    memory.reset()
    lode.Dataset("visits", memory, layout=lode.HiveLayout("day")).transaction().abort()
    assert [method for method, _ in names(memory)] == ["get", "get", "get"]


def test_the_options_that_it_was_created_with_spare_the_read_of_its_definition(memory: CountingStore) -> None:
    written(memory)
    stored = lode.Dataset("visits", memory).definition
    memory.reset()
    assert visits(memory).definition == stored
    assert [method for method, _ in names(memory)] == ["get", "get"]


def test_options_it_was_created_with_do_not_hide_a_later_change(memory: CountingStore) -> None:
    created = written(memory)
    created.evolve(add={"late": "int64"})
    memory.reset()
    assert visits(memory).definition == created.definition
    assert "late" in visits(memory).definition.ids


def test_a_dataset_that_is_expected_and_does_not_exist_gets_its_definition(memory: CountingStore) -> None:
    expected = visits(memory).definition
    assert not list(memory.list("datasets/visits/definition/"))
    stored = written(memory).definition
    assert stored.ids
    assert not expected.ids
    assert [info.path for info in memory.list("datasets/visits/definition/")] == [
        f"datasets/visits/definition/{stored.digest}.json"
    ]


def test_wrong_kinds_of_options_are_refused_by_name(memory: CountingStore) -> None:
    wrong: Any = "hive"
    with pytest.raises(lode.InvalidOptionError, match=r"layout is 'hive'.*lode.HiveLayout"):
        lode.Dataset("visits", memory, layout=wrong)
    dataset = written(memory)
    columns: Any = "n"
    with pytest.raises(lode.InvalidOptionError, match=r"columns=\['n'\]"):
        dataset.scan(columns=columns)
    where: Any = 1
    with pytest.raises(lode.InvalidOptionError, match="where is 1: give"):
        dataset.scan(where=where)


# -- create --------------------------------------------------------------------------------------


def test_a_created_dataset_has_its_definition_before_the_first_row(memory: CountingStore) -> None:
    lode.Dataset.create(
        "visits",
        memory,
        schema=SCHEMA,
        partition_by=["day"],
        sort_by=["n"],
        primary_key=["day", "n"],
        timestamp_column=None,
        description="Visits by day",
        properties={"owner": "web"},
    )
    opened = lode.open_dataset("visits", memory)
    definition = opened.definition
    assert opened.layout == lode.HiveLayout("day")
    assert (definition.description, definition.properties) == ("Visits by day", {"owner": "web"})
    assert (definition.sort_by, definition.primary_key) == (("n",), ("day", "n"))
    assert opened.scan().read_all().schema == lode.Parquet(SCHEMA).schema
    assert [s.manifest.operation for s in opened.snapshots()] == ["create"]
    assert opened.write(ROWS).sequence == 2
    assert lode.verify(opened).ok


def test_creating_an_existing_dataset_is_refused(memory: CountingStore) -> None:
    written(memory)
    before = contents(memory)
    with pytest.raises(lode.DatasetExistsError, match="dataset 'visits' exists"):
        lode.Dataset.create("visits", memory, schema=SCHEMA, partition_by=["day"])
    assert contents(memory) == before


def test_of_two_creators_exactly_one_succeeds(memory: CountingStore) -> None:
    class Rival(CountingStore):
        def _compare_and_swap(self, path: str, expected: bytes | None, replacement: bytes) -> bool:
            if not memory.exists(path):
                lode.Dataset.create("visits", memory, schema=SCHEMA)
            return super()._compare_and_swap(path, expected, replacement)

    with pytest.raises(lode.DatasetExistsError):
        lode.Dataset.create("visits", Rival(memory), schema=SCHEMA)
    assert len(lode.Dataset("visits", memory).snapshots()) == 1


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"partition_by": ["hour"]}, "partition_by names 'hour'"),
        ({"sort_by": ["hour"]}, "sort_by names 'hour'"),
        ({"primary_key": ["hour"]}, "primary_key names 'hour'"),
        ({"timestamp_column": "hour"}, "timestamp_column names 'hour'"),
        ({"partition_by": "day"}, r"partition_by=\['day'\]"),
        ({"codec": lode.Parquet(SCHEMA)}, "schema is given twice"),
        ({"schema": {}}, "at least one field"),
        ({"properties": {"x": {1}}}, "properties"),
    ],
)
def test_bad_input_to_create_changes_nothing(
    memory: CountingStore, options: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(lode.LodeError, match=complaint):
        lode.Dataset.create("visits", memory, **({"schema": SCHEMA} | options))
    assert contents(memory) == {}


def test_opening_a_missing_dataset_is_not_found(memory: CountingStore) -> None:
    with pytest.raises(lode.NotFoundError, match="no dataset 'visits'"):
        lode.open_dataset("visits", memory)


# -- writes are checked against the columns --------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        ([{"day": "mon", "n": "x"}], "column 'n'.*str 'x' does not fit int32"),
        (pa.table({"day": ["mon"], "n": ["x"]}), "column 'n'.*does not fit int32"),
        (pa.table({"day": ["mon"], "n": [1], "new": [1]}), r"column 'new' \(int64\) is not one of.*evolve"),
        ([{"day": "mon", "n": 1, "new": 1}], "new"),
        ([{"n": 1}], "column 'day': a required column is missing"),
        (pa.table({"n": [1]}), r"column 'day' \(string\) is required"),
        ([{"day": None, "n": 1}], "column 'day': null in a required column"),
        ([{"day": "mon", "n": 2**40}], "column 'n'.*out of range for int32"),
    ],
)
def test_rows_that_do_not_fit_are_refused_before_anything_is_uploaded(
    memory: CountingStore, rows: Any, complaint: str
) -> None:
    written(memory)
    before = contents(memory)
    for dataset in (visits(memory), lode.Dataset("visits", memory)):
        with pytest.raises(lode.SchemaViolationError, match=complaint):
            dataset.write(rows)
    assert contents(memory) == before
    assert lode.Dataset("visits", memory).scan().read_all().num_rows == 2


def test_fewer_columns_are_null_if_they_may_be(memory: CountingStore) -> None:
    written(memory).write([{"day": "wed"}])
    rows = lode.Dataset("visits", memory).scan(where=pc.field("day") == "wed").read_all().to_pylist()
    assert rows == [{"day": "wed", "n": None}]


def test_the_first_arrow_data_gives_a_dataset_without_schema_its_columns(memory: CountingStore) -> None:
    dataset = lode.Dataset("visits", memory, codec="parquet")
    dataset.write(pa.table({"n": [1]}))
    assert dataset.schema == pa.schema({"n": pa.int64()})
    with pytest.raises(lode.SchemaViolationError, match="column 'n'"):
        lode.Dataset("visits", memory, codec="parquet").write(pa.table({"n": ["text"]}))


def test_parts_staged_elsewhere_give_the_columns_too(memory: CountingStore) -> None:
    dataset = lode.Dataset("visits", memory, codec="arrow")
    with dataset.transaction() as transaction:
        transaction.stage(pa.table({"a": [1]}))
        transaction.write_records(iter([pa.table({"a": [2], "b": ["x"]})]))
        transaction.commit()
    assert dataset.schema == pa.table({"a": pa.array([], pa.int64()), "b": pa.array([], pa.string())}).schema
    assert sorted(row["a"] for row in dataset.scan().read_all().to_pylist()) == [1, 2]


def test_parts_that_disagree_about_a_column_are_refused_at_the_commit(memory: CountingStore) -> None:
    transaction = lode.Dataset("visits", memory, codec="arrow").transaction()
    transaction.stage(pa.table({"a": [1]}))
    transaction.stage(pa.table({"a": ["x"]}))
    with pytest.raises(lode.SchemaViolationError, match="different types for one column"):
        transaction.commit()
    assert lode.Dataset("visits", memory).snapshots() == []


def test_of_two_first_writers_with_different_columns_the_second_is_refused(memory: CountingStore) -> None:
    layout = lode.HiveLayout("k")
    first, second = (lode.Dataset("visits", memory, codec="parquet", layout=layout) for _ in range(2))
    begun = [first.transaction(), second.transaction()]
    begun[0].stage(pa.table({"k": ["a"], "v": [1]}))
    begun[1].stage(pa.table({"k": ["b"], "v": ["text"]}))
    begun[0].commit()
    with pytest.raises(lode.SchemaViolationError, match=r"column 'v' is string in the data and int64"):
        begun[1].commit()
    assert lode.Dataset("visits", memory).scan().read_all().to_pylist() == [{"k": "a", "v": 1}]


def test_records_with_a_json_schema_are_checked_and_written_as_they_are(memory: CountingStore) -> None:
    dataset = lode.Dataset("visits", memory, codec=lode.JSONL(SCHEMA))
    snapshot = dataset.write([{"n": 1, "day": "mon"}])
    assert memory.get(snapshot.files[0].path) == b'{"n":1,"day":"mon"}\n'
    with pytest.raises(lode.SchemaViolationError, match="column 'n'"):
        lode.Dataset("visits", memory).write([{"day": "mon", "n": "x"}])


def test_a_stricter_schema_is_enforced_for_its_writer(memory: CountingStore) -> None:
    written(memory)
    strict = visits(memory, codec=lode.Parquet({"day": "string!", "n": "int32!"}))
    with pytest.raises(lode.SchemaViolationError, match="null in a required column"):
        strict.write([{"day": "mon", "n": None}])


def test_a_writer_with_an_older_narrower_schema_continues_to_write(memory: CountingStore) -> None:
    old = written(memory)
    lode.Dataset("visits", memory).evolve(widen={"n": "int64"}, add={"note": "string"})
    again = visits(memory)
    again.write([{"day": "wed", "n": 3}])
    old.write([{"day": "mon", "n": 4}])  # it still has the earlier definition
    assert lode.Dataset("visits", memory).scan(columns=["n"]).read_all().num_rows == 4


@pytest.mark.parametrize(
    "rows",
    [[{"day": "wed", "n": 3, "note": "x"}], pa.table({"day": ["wed"], "n": [3], "note": ["x"]})],
    ids=["records", "arrow"],
)
def test_a_writer_with_cached_columns_accepts_the_new_ones(memory: CountingStore, rows: Any) -> None:
    dataset = lode.Dataset("visits", memory)
    written(memory)
    dataset.write([{"day": "tue", "n": 1}])
    lode.Dataset("visits", memory).evolve(add={"note": "string"})
    dataset.write(rows)
    assert lode.Dataset("visits", memory).scan(where=pc.field("note") == "x").read_all().num_rows == 1


# -- reading -------------------------------------------------------------------------------------


def test_a_scan_opens_only_files_that_can_match_however_the_dataset_was_opened() -> None:
    lake = MemoryStore()
    dataset = visits(lake)
    for number in range(20):
        dataset.write([{"day": f"d{number:02}", "n": number}])
    calls = []
    for options in ({}, {"codec": "parquet"}, {"codec": lode.Parquet(SCHEMA)}):
        store = CountingStore(lake)
        opened = lode.Dataset("visits", store, **options)
        assert opened.scan(where=pc.field("day") == "d07").read_all().to_pylist() == [{"day": "d07", "n": 7}]
        files = {path for _, path in store.events if "/data/" in path}
        calls.append(len(files))
    assert calls == [1, 1, 1]


def test_datasets_plans_and_volumes_pickle(tmp_path: Path) -> None:
    dataset = visits(str(tmp_path), checksum="md5", writer="me")
    dataset.write(ROWS)
    copy = pickle.loads(pickle.dumps(dataset))
    assert copy.write([{"day": "wed", "n": 3}]).writer == "me"
    plan = pickle.loads(pickle.dumps(copy.plan()))
    assert plan.read().read_all().num_rows == 3
    dataset.evolve(rename={"n": "count"})
    renamed = pickle.loads(pickle.dumps(dataset.plan()))
    assert renamed.read(where=pc.field("count") > 1).read_all().num_rows == 2
    volume = lode.Volume("v", str(tmp_path), 10)
    assert pickle.loads(pickle.dumps(volume)).total_length == 10


@pytest.mark.parametrize("damage", ["missing", "garbled"])
def test_verify_reports_a_missing_or_damaged_definition(memory: CountingStore, damage: str) -> None:
    dataset = written(memory)
    path = f"datasets/visits/definition/{dataset.definition.digest}.json"
    memory.delete(path)
    if damage == "garbled":
        memory.put(path, b"{}")
    (problem,) = lode.verify(dataset).problems
    assert (problem.kind, problem.path) == ("definition", path)


# -- lakes of 0.1 ----------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", [lode.Parquet(SCHEMA), lode.ArrowIPC(SCHEMA)], ids=repr)
def test_the_definition_of_a_lake_without_one_is_derived(memory: CountingStore, codec: Any) -> None:
    visits(memory, codec=codec).write(ROWS)
    without_definitions(memory)
    opened = lode.Dataset("visits", memory)
    assert opened.layout == lode.HiveLayout("day")
    assert opened.schema == codec.schema
    assert opened.scan().read_all().num_rows == 2
    with pytest.raises(lode.SchemaViolationError):
        opened.write([{"day": "mon", "n": "x"}])
    snapshot = opened.write(ROWS)
    assert snapshot.manifest.definition == opened.definition.digest
    assert lode.Dataset("visits", memory).scan().read_all().num_rows == 4
    assert lode.verify(opened).ok


def test_a_derived_definition_has_the_columns_of_older_files_too(memory: CountingStore) -> None:
    dataset = lode.Dataset("visits", memory, codec="parquet")
    dataset.write(pa.table({"a": [1], "b": [1]}))
    dataset.write(pa.table({"a": [2], "c": [[1, 2]]}), evolve=True)
    for snapshot in dataset.snapshots():
        assert len(snapshot.files) == 1
    without_definitions(memory)
    opened = lode.Dataset("visits", memory)
    assert opened.schema is not None
    assert sorted(opened.schema.names) == ["a", "b", "c"]
    assert opened.scan().read_all().num_rows == 2


def test_a_later_foreign_snapshot_keeps_our_definition(memory: CountingStore) -> None:
    dataset = written(memory)
    dataset.evolve(add={"note": "string"})
    foreign = dataset.write(ROWS)
    path = dataset.chain.paths.manifest(foreign.id)
    manifest = json.loads(memory.get(path))
    del manifest["x"], manifest["sequence"]
    memory.delete(path)
    memory.put(path, json.dumps(manifest).encode())
    opened = lode.Dataset("visits", memory)
    assert opened.schema is not None
    assert opened.schema.names == ["day", "n", "note"]
    assert opened.scan().read_all().num_rows == 4
    assert opened.write(ROWS).manifest.definition == opened.definition.digest


def test_a_dataset_whose_first_commit_is_not_published_yet_is_what_that_commit_says(
    memory: CountingStore,
) -> None:
    first = lode.Dataset("events", memory, codec="jsonl").write([{"id": 1}])
    memory.delete(f"datasets/events/snapshots/{first.id}/manifest.json")
    opened = lode.Dataset("events", memory)
    assert opened.exists
    assert opened.definition.codec == "jsonl"
