"""The catalog: definitions on the store, their generations, their cache, and refusals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pytest

import lode
from lode.ingest.catalog.catalog import Catalog, DatasetInUse
from lode.ingest.catalog.dataset import DatasetName
from lode.ingest.names import TableName
from lode.ingest.status import Code, Refused, StorageCode
from lode.ingest.types.columns import Column, TableSchema
from lode.runtime import Runtime
from lode.store import CountingStore, Fault, FaultStore, LocalStore, MemoryStore

if TYPE_CHECKING:
    from pathlib import Path

    from lode.ingest.catalog.table import TableDefinition

DATASET = DatasetName("p", "d")
NAME = TableName("p", "d", "t")
SCHEMA = TableSchema((Column("id", "INT64", "REQUIRED"), Column("name", "STRING")))
WIDER = TableSchema((*SCHEMA.columns, Column("score", "FLOAT64")))


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def catalog(store: MemoryStore) -> Catalog:
    catalog = Catalog(store)
    catalog.create_dataset(DATASET)
    return catalog


def widened(definition: TableDefinition) -> TableDefinition:
    return msgspec.structs.replace(definition, schema=WIDER)


def refusal(code: Code, match: str | None = None) -> Any:
    return pytest.raises(Refused, match=match, check=lambda refused: refused.code is code)


def rows(*ids: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"id": id, "name": f"n{id}"} for id in ids], schema=SCHEMA.arrow)


def test_a_created_table_is_found_by_another_catalog_on_the_store(
    catalog: Catalog, store: MemoryStore
) -> None:
    created = catalog.create_table(NAME, SCHEMA, info={"description": "what it is"})
    assert Catalog(store).table(NAME) == created
    assert (created.version, created.generation, created.dataset_id) == (1, 1, "p.d.t")
    assert created.schema == SCHEMA


def test_a_missing_table_is_refused_as_the_storage_api_does(catalog: Catalog) -> None:
    with refusal(Code.NOT_FOUND, "Not found: Table p:d.t") as caught:
        catalog.table(NAME)
    refused = caught.value
    assert refused.storage is StorageCode.TABLE_NOT_FOUND
    assert refused.entity == "projects/p/datasets/d/tables/t"
    assert refused.ends_call


def test_a_table_needs_its_dataset() -> None:
    with refusal(Code.NOT_FOUND, "Not found: Dataset p:d"):
        Catalog(MemoryStore()).create_table(NAME, SCHEMA)


def test_a_table_is_created_once(catalog: Catalog) -> None:
    catalog.create_table(NAME, SCHEMA)
    with refusal(Code.ALREADY_EXISTS, "Already Exists: Table p:d.t"):
        catalog.create_table(NAME, SCHEMA)


def test_every_change_has_a_version_and_an_etag_of_its_own(catalog: Catalog) -> None:
    created = catalog.create_table(NAME, SCHEMA)
    changed = catalog.update_table(NAME, widened, etag=created.etag)
    assert (changed.version, changed.schema) == (2, WIDER)
    assert changed.etag != created.etag
    with refusal(Code.FAILED_PRECONDITION, "etag"):
        catalog.update_table(NAME, widened, etag=created.etag)
    with refusal(Code.FAILED_PRECONDITION, "etag"):
        catalog.delete_table(NAME, etag=created.etag)
    assert catalog.table(NAME, fresh=True) == changed


def test_a_schema_only_grows(catalog: Catalog) -> None:
    catalog.create_table(NAME, WIDER)
    with refusal(Code.INVALID_ARGUMENT, "score"):
        catalog.update_table(NAME, lambda current: msgspec.structs.replace(current, schema=SCHEMA))
    assert catalog.table(NAME).schema == WIDER


def test_a_deleted_table_is_gone_and_its_next_generation_is_empty(
    catalog: Catalog, store: MemoryStore
) -> None:
    first = catalog.create_table(NAME, SCHEMA)
    first.open(store).write(first.prepare(rows(1, 2)))
    catalog.delete_table(NAME)
    with refusal(Code.NOT_FOUND):
        catalog.table(NAME)
    with refusal(Code.NOT_FOUND):
        catalog.delete_table(NAME)

    second = catalog.create_table(NAME, WIDER)
    assert (second.generation, second.version, second.dataset_id) == (2, 1, "p.d.t.2")
    assert second.open(store).snapshots() == []


def test_the_snapshots_of_a_deleted_table_can_still_be_read(catalog: Catalog, store: MemoryStore) -> None:
    definition = catalog.create_table(NAME, SCHEMA)
    definition.open(store).write(rows(1, 2))
    catalog.delete_table(NAME)
    kept = lode.Dataset("p.d.t", store, codec=lode.Parquet()).scan().read_all()
    assert kept.column("id").to_pylist() == [1, 2]


def test_a_dataset_with_tables_is_only_deleted_with_them(catalog: Catalog) -> None:
    catalog.create_table(NAME, SCHEMA)
    with pytest.raises(DatasetInUse, match="still in use"):
        catalog.delete_dataset(DATASET)
    catalog.delete_dataset(DATASET, delete_contents=True)
    with refusal(Code.NOT_FOUND):
        catalog.dataset(DATASET)
    with refusal(Code.NOT_FOUND):
        catalog.table(NAME)


def test_tables_do_not_come_back_with_a_dataset_of_the_same_name(catalog: Catalog) -> None:
    catalog.create_table(NAME, SCHEMA)
    catalog.delete_dataset(DATASET, delete_contents=True)
    assert catalog.create_dataset(DATASET).generation == 2
    with refusal(Code.NOT_FOUND):
        catalog.table(NAME)
    assert catalog.list_tables(DATASET) == []
    assert catalog.create_table(NAME, SCHEMA).generation == 2


def test_a_dataset_whose_tables_are_deleted_counts_as_empty(catalog: Catalog) -> None:
    catalog.create_table(NAME, SCHEMA)
    catalog.delete_table(NAME)
    catalog.delete_dataset(DATASET)
    assert catalog.list_datasets("p") == []


def test_a_new_table_leaves_the_etag_of_its_dataset(catalog: Catalog) -> None:
    before = catalog.dataset(DATASET)
    catalog.create_table(NAME, SCHEMA)
    described = catalog.update_dataset(
        DATASET,
        lambda current: msgspec.structs.replace(current, info={"description": "x"}),
        etag=before.etag,
    )
    assert described.info == {"description": "x"}
    assert described.etag != before.etag


def test_listings_have_pages_in_order_without_deleted_entries(catalog: Catalog) -> None:
    names = ["a", "a b", "a-b", "b", "B", "ü", "z_1"]
    for name in names:
        catalog.create_table(TableName("p", "d", name), SCHEMA)
    catalog.delete_table(TableName("p", "d", "b"))
    listed = [table.name.table for table in catalog.list_tables(DATASET)]
    assert sorted(listed) == sorted(set(names) - {"b"})
    paged: list[str] = []
    while page := catalog.list_tables(DATASET, after=paged[-1] if paged else "", limit=2):
        assert len(page) <= 2
        paged += [table.name.table for table in page]
    assert paged == listed


def test_listing_datasets_reads_no_tables(store: MemoryStore) -> None:
    names = ["a", "a0", "a_b", "ab"]
    writer = Catalog(store)
    for name in names:
        writer.create_dataset(DatasetName("p", name))
        for number in range(5):
            writer.create_table(TableName("p", name, f"t{number}"), SCHEMA)
    counting = CountingStore(store)
    catalog = Catalog(counting)
    assert [dataset.name.dataset for dataset in catalog.list_datasets("p")] == sorted(names)
    assert counting.counts["get"] == len(names)
    assert [dataset.name.dataset for dataset in catalog.list_datasets("p", after="a0", limit=1)] == ["a_b"]
    assert catalog.list_projects() == ["p"]
    assert catalog.list_datasets("another") == []


@pytest.mark.parametrize("project", ["example.com:lake", "..", "a%2Fb", "a\\b", "a\x01b"])
def test_characters_that_are_not_allowed_in_paths_are_escaped(project: str, tmp_path: Path) -> None:
    catalog = Catalog(LocalStore(tmp_path))
    name = TableName(project, "d", "tab le-ü")
    catalog.create_dataset(DatasetName(project, "d"))
    created = catalog.create_table(name, SCHEMA)
    created.open(catalog.store).write(rows(1))
    assert catalog.table(name, fresh=True).name == name
    assert catalog.list_projects() == [project]
    assert [table.name for table in catalog.list_tables(DatasetName(project, "d"))] == [name]


def test_no_two_tables_share_a_dataset_id() -> None:
    # Without the escape the second generation of one would be the first of the other.
    catalog = Catalog(MemoryStore())
    catalog.create_dataset(DatasetName("a", "b"))
    catalog.create_dataset(DatasetName("a.b", "c"))
    first = TableName("a", "b", "c")
    catalog.create_table(first, SCHEMA)
    catalog.delete_table(first)
    again = catalog.create_table(first, SCHEMA)
    other = catalog.create_table(TableName("a.b", "c", "2"), SCHEMA)
    assert (again.dataset_id, other.dataset_id) == ("a.b.c.2", "a%2Eb.c.2")


@pytest.mark.parametrize("table", ["", "a/b", "a.b", "t$20260101", "a*", "x" * 300, "a\nb"])
def test_invalid_table_names_are_refused(catalog: Catalog, table: str) -> None:
    with refusal(Code.INVALID_ARGUMENT, "Invalid table name"):
        catalog.create_table(TableName("p", "d", table), SCHEMA)


def test_a_definition_is_cached_for_max_age(store: MemoryStore) -> None:
    Catalog(store).create_dataset(DATASET)
    other = Catalog(store)
    other.create_table(NAME, SCHEMA)
    clock, counting = Clock(), CountingStore(store)
    catalog = Catalog(counting, max_age=1.0, runtime=Runtime(monotonic=clock))
    catalog.table(NAME)
    counting.reset()
    other.update_table(NAME, widened)
    clock.seconds += 0.9
    assert catalog.table(NAME).version == 1
    assert counting.counts == {}
    clock.seconds += 0.2
    assert catalog.table(NAME).version == 2


def test_fresh_bypasses_the_cache(catalog: Catalog, store: MemoryStore) -> None:
    catalog.create_table(NAME, SCHEMA)
    Catalog(store).update_table(NAME, widened)
    assert catalog.table(NAME).version == 1
    assert catalog.table(NAME, fresh=True).version == 2
    assert catalog.table(NAME).version == 2


def test_a_definition_that_did_not_change_stays_the_same_object(catalog: Catalog) -> None:
    created = catalog.create_table(NAME, SCHEMA)
    assert catalog.table(NAME, fresh=True) is created


def test_a_slow_read_does_not_hide_a_concurrent_change(store: MemoryStore) -> None:
    class Slow(FaultStore):
        """Changes the table through the catalog while a read of it is in progress."""

        armed = False

        def get(self, path: str) -> bytes:
            data = super().get(path)
            if self.armed and path.endswith("/t.json"):
                self.armed = False
                reader.update_table(NAME, widened)
            return data

    slow = Slow(store)
    reader = Catalog(slow)
    reader.create_dataset(DATASET)
    reader.create_table(NAME, SCHEMA)
    slow.armed = True
    reader.table(NAME, fresh=True)
    assert reader.table(NAME).version == 2


def test_a_swap_whose_answer_is_lost_is_settled_by_reading_back(store: MemoryStore) -> None:
    faulty = FaultStore(store)
    catalog = Catalog(faulty)
    catalog.create_dataset(DATASET)
    lost = Fault("compare_and_swap", "*/t.json", when="after", error=lode.OutcomeUnknownError("lost"))
    faulty.add(lost)
    assert catalog.create_table(NAME, SCHEMA) == Catalog(store).table(NAME)


def test_a_swap_with_an_unknown_outcome_is_unavailable(store: MemoryStore) -> None:
    faulty = FaultStore(store)
    catalog = Catalog(faulty)
    catalog.create_dataset(DATASET)
    faulty.add(Fault("compare_and_swap", "*/t.json", error=lode.OutcomeUnknownError("lost")))
    with refusal(Code.UNAVAILABLE, "response was lost"):
        catalog.create_table(NAME, SCHEMA)


def test_a_store_that_cannot_swap_is_refused(store: MemoryStore) -> None:
    class Plain(FaultStore):
        def __init__(self, inner: lode.Store) -> None:
            super().__init__(inner)
            del self.compare_and_swap

    with pytest.raises(lode.InvalidOptionError, match="cannot compare and swap"):
        Catalog(Plain(store))


def test_a_damaged_definition_is_named(catalog: Catalog, store: MemoryStore) -> None:
    store.put("catalog/p/d/tables/t.json", b'{"kind": "something else"}')
    with pytest.raises(lode.ManifestInvalidError, match=r"catalog/p/d/tables/t\.json"):
        catalog.table(NAME)


def test_a_definition_of_a_later_format_is_refused(catalog: Catalog, store: MemoryStore) -> None:
    catalog.create_table(NAME, SCHEMA)
    path = "catalog/p/d/tables/t.json"
    later = store.get(path).replace(b'"1.0.0"', b'"2.0.0"')
    assert store.compare_and_swap(path, store.get(path), later)
    with pytest.raises(lode.ManifestInvalidError, match="upgrade lode"):
        catalog.update_table(NAME, widened)
    assert store.get(path) == later


def test_a_table_may_start_without_columns(catalog: Catalog, store: MemoryStore) -> None:
    created = catalog.create_table(NAME, TableSchema(()))
    assert not created.open(store).exists
    grown = catalog.update_table(
        NAME, lambda c: msgspec.structs.replace(c, schema=TableSchema((Column("a", "INT64"),)))
    )
    grown.open(store).write(pa.table({"a": [1]}))
    assert grown.open(store).scan().read_all().to_pylist() == [{"a": 1}]
