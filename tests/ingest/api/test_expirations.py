"""Tables and partitions expire by their own setting or by that of their dataset, and nothing else does."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pytest
from google.api_core.exceptions import BadRequest, NotFound
from google.cloud import bigquery

from lode.ingest.catalog.catalog import Catalog
from lode.ingest.catalog.dataset import DatasetName
from lode.ingest.catalog.partitioning import RangePartitioning, TimePartitioning
from lode.ingest.names import TableName
from lode.ingest.status import Code, Refused
from lode.ingest.types.columns import Column, TableSchema
from lode.runtime import REAL
from lode.store.memory import MemoryStore
from support.clock import Clock
from support.ingest.engines import dataset_of, engine_on, refusal_of
from support.ingest.rest_served import RestServed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from google.cloud.bigquery import Client

DATASET = DatasetName("p", "d")
NAME = TableName("p", "d", "t")
SCHEMA = TableSchema((Column("id", "INT64"), Column("at", "TIMESTAMP")))
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def catalog(clock: Clock) -> Catalog:
    catalog = Catalog(MemoryStore(), runtime=dataclasses.replace(REAL, now_ns=clock))
    catalog.create_dataset(DATASET)
    return catalog


def expiring(clock: Clock, milliseconds: int) -> dict[str, Any]:
    return {"expirationTime": str(clock.now // 1_000_000 + milliseconds)}


def test_an_expired_table_is_not_there_and_its_name_is_free(catalog: Catalog, clock: Clock) -> None:
    first = catalog.create_table(NAME, SCHEMA, info=expiring(clock, HOUR_MS))
    clock.pass_by(timedelta(minutes=59))
    assert catalog.table(NAME).generation == 1
    clock.pass_by(timedelta(minutes=1))
    with pytest.raises(Refused) as refused:
        catalog.table(NAME)
    assert refused.value.code is Code.NOT_FOUND
    assert catalog.list_tables(DATASET) == []
    assert catalog.is_known_deleted(NAME, first.generation)
    with pytest.raises(Refused):
        catalog.update_table(NAME, lambda table: msgspec.structs.replace(table, info={}))
    assert catalog.create_table(NAME, SCHEMA).generation == 2


def test_an_expiration_can_be_put_off_and_removed(catalog: Catalog, clock: Clock) -> None:
    catalog.create_table(NAME, SCHEMA, info=expiring(clock, HOUR_MS))
    later = expiring(clock, DAY_MS)
    catalog.update_table(NAME, lambda table: msgspec.structs.replace(table, info=later))
    clock.pass_by(timedelta(hours=2))
    catalog.update_table(NAME, lambda table: msgspec.structs.replace(table, info={}))
    clock.pass_by(timedelta(days=2))
    assert catalog.table(NAME).expires_ms is None


def test_a_time_in_the_past_is_refused(catalog: Catalog, clock: Clock) -> None:
    with pytest.raises(Refused, match="not in the future"):
        catalog.create_table(NAME, SCHEMA, info=expiring(clock, 0))


def test_the_defaults_of_a_dataset_are_those_of_new_tables(catalog: Catalog, clock: Clock) -> None:
    catalog.create_table(NAME, SCHEMA)
    info = {"defaultTableExpirationMs": str(HOUR_MS), "defaultPartitionExpirationMs": str(DAY_MS)}
    catalog.update_dataset(DATASET, lambda dataset: msgspec.structs.replace(dataset, info=info))
    made = {
        what: catalog.create_table(NAME._replace(table=what), SCHEMA, partitioning=partitioning, info=own)
        for what, partitioning, own in (
            ("plain", None, {}),
            ("own", None, expiring(clock, 5 * HOUR_MS)),
            ("days", TimePartitioning("DAY", "at"), {}),
            ("longer", TimePartitioning("DAY", "at", 7 * DAY_MS), {}),
            ("ranges", RangePartitioning("id", 0, 10, 1), {}),
        )
    }
    now_ms = clock.now // 1_000_000
    assert catalog.table(NAME).expires_ms is None
    assert made["plain"].expires_ms == now_ms + HOUR_MS
    assert made["own"].expires_ms == now_ms + 5 * HOUR_MS
    assert made["days"].partitioning == TimePartitioning("DAY", "at", DAY_MS)
    assert made["days"].expires_ms is None
    assert made["longer"].partitioning == TimePartitioning("DAY", "at", 7 * DAY_MS)
    assert made["ranges"].expires_ms == now_ms + HOUR_MS


def test_a_partitioning_cannot_change_but_its_expiration_can(catalog: Catalog) -> None:
    catalog.create_table(NAME, SCHEMA, partitioning=TimePartitioning("DAY", "at"))

    def to(partitioning: TimePartitioning) -> Any:
        return catalog.update_table(
            NAME, lambda table: msgspec.structs.replace(table, partitioning=partitioning)
        )

    assert to(TimePartitioning("DAY", "at", 5)).partitioning == TimePartitioning("DAY", "at", 5)
    with pytest.raises(Refused, match="cannot change"):
        to(TimePartitioning("HOUR", "at", 5))


@pytest.mark.parametrize("kind", ["TIMESTAMP", "DATE", "DATETIME"])
@pytest.mark.parametrize("unit", ["DAY", "HOUR", "MONTH", "YEAR"])
def test_rows_of_expired_partitions_are_removed_and_no_others(tmp_path: Path, kind: str, unit: Any) -> None:
    if (kind, unit) == ("DATE", "HOUR"):
        return
    store = MemoryStore()
    engine = engine_on(store, tmp_path / "state")
    engine.catalog.create_dataset(DATASET)
    schema = TableSchema((Column("id", "INT64"), Column("at", kind)))
    # Three years: far from the edge of any partition for rows of one, two, five and six years ago.
    expires = 3 * 366 * DAY_MS
    engine.catalog.create_table(NAME, schema, partitioning=TimePartitioning(unit, "at", expires))
    now = datetime.now(UTC)
    ages = {0: now, 1: now - timedelta(days=365), 2: now - timedelta(days=730)}
    ages |= {5: now - timedelta(days=5 * 366), 6: now - timedelta(days=6 * 366)}
    at: Any = [moment if kind == "TIMESTAMP" else moment.replace(tzinfo=None) for moment in ages.values()]
    at = [moment.date() for moment in at] if kind == "DATE" else at
    rows = {"id": [*ages, 9], "at": [*at, None]}
    assert refusal_of(engine.append(NAME, pa.RecordBatch.from_pydict(rows, schema=schema.arrow))) is None
    assert engine.expire_partitions() == 2
    assert engine.expire_partitions() == 0
    engine.close()
    dataset = dataset_of(store, NAME)
    found: list[Any] = dataset.scan().read_all().column("id").to_pylist()
    assert sorted(found) == [0, 1, 2, 9]
    assert dataset.count(as_of="latest~1") == 6


def test_the_partition_that_began_exactly_that_long_ago_is_the_newest_that_is_removed() -> None:
    from lode.ingest.catalog.partitioning import expired_rows, partition_ids

    noon = int(datetime(2026, 11, 17, 12, tzinfo=UTC).timestamp() * 1000)
    days = [datetime(2026, 11, day, hour, tzinfo=UTC) for day in (15, 16) for hour in (0, 23)]
    schema = TableSchema((Column("at", "TIMESTAMP"),))
    batch = pa.RecordBatch.from_pydict({"at": days}, schema=schema.arrow)
    for column, unit, expires, kept in (
        ("at", "DAY", DAY_MS, 0),
        ("at", "DAY", 36 * HOUR_MS, 0),
        ("at", "DAY", 36 * HOUR_MS + 1, 2),
        ("at", "HOUR", 13 * HOUR_MS, 0),
        ("at", "HOUR", 13 * HOUR_MS + 1, 1),
    ):
        partitioning = TimePartitioning(unit, column, expires)  # type: ignore[arg-type]
        rows = pa.Table.from_batches([batch])
        if unit == "HOUR":
            rows = rows.append_column("_PARTITIONID", partition_ids(partitioning, batch))
        found = rows.filter(~expired_rows(partitioning, schema, noon))
        assert found.num_rows == kept, (unit, expires)


def test_a_table_without_rows_and_a_table_that_does_not_expire_are_left_alone(tmp_path: Path) -> None:
    store = MemoryStore()
    engine = engine_on(store, tmp_path / "state")
    engine.catalog.create_dataset(DATASET)
    engine.catalog.create_table(NAME, SCHEMA, partitioning=TimePartitioning("DAY", "at", 1))
    other = NAME._replace(table="other")
    engine.catalog.create_table(other, SCHEMA, partitioning=TimePartitioning("DAY", "at"))
    old = pa.RecordBatch.from_pydict(
        {"id": [1], "at": [datetime(2001, 1, 1, tzinfo=UTC)]}, schema=SCHEMA.arrow
    )
    assert refusal_of(engine.append(other, old)) is None
    assert engine.expire_partitions() == 0
    engine.close()
    assert dataset_of(store, other).count() == 1


@pytest.fixture(scope="module")
def served() -> Iterator[RestServed]:
    with RestServed() as served:
        yield served


@pytest.fixture
def client(served: RestServed, request: pytest.FixtureRequest) -> Client:
    return served.client(request.node.name.replace("_", "-")[:60])


def test_the_official_client_sets_and_reads_expirations(client: Client) -> None:
    dataset = bigquery.Dataset(f"{client.project}.d")
    dataset.default_table_expiration_ms = HOUR_MS
    client.create_dataset(dataset)
    found = client.get_dataset("d")
    assert found.default_table_expiration_ms == HOUR_MS
    found.default_partition_expiration_ms = DAY_MS
    assert client.update_dataset(found, ["default_partition_expiration_ms"]).default_partition_expiration_ms
    schema = [bigquery.SchemaField("at", "TIMESTAMP")]
    plain = client.create_table(bigquery.Table(f"{client.project}.d.plain", schema=schema))
    assert plain.expires is not None
    assert timedelta(minutes=55) < plain.expires - datetime.now(UTC) <= timedelta(hours=1)
    assert [table.expires for table in client.list_tables("d")] == [plain.expires]
    plain.expires = None
    assert client.update_table(plain, ["expires"]).expires is None
    days = bigquery.Table(f"{client.project}.d.days", schema=schema)
    days.time_partitioning = bigquery.TimePartitioning(field="at")
    made = client.create_table(days)
    assert made.time_partitioning.expiration_ms == DAY_MS
    made.time_partitioning = bigquery.TimePartitioning(field="at", expiration_ms=2 * DAY_MS)
    assert client.update_table(made, ["time_partitioning"]).time_partitioning.expiration_ms == 2 * DAY_MS
    found = client.get_dataset("d")
    found.default_table_expiration_ms = None
    assert client.update_dataset(found, ["default_table_expiration_ms"]).default_table_expiration_ms is None


def test_only_the_expiration_of_a_partitioning_may_be_sent(served: RestServed, client: Client) -> None:
    client.create_dataset("d")
    table = bigquery.Table(f"{client.project}.d.t", schema=[bigquery.SchemaField("at", "TIMESTAMP")])
    table.time_partitioning = bigquery.TimePartitioning("HOUR", "at")
    client.create_table(table)
    path = f"/projects/{client.project}/datasets/d/tables/t"
    status, answer = served.call("PATCH", path, {"timePartitioning": {"expirationMs": "5"}})
    assert status == 200
    assert answer["timePartitioning"] == {"type": "HOUR", "field": "at", "expirationMs": "5"}


def test_expirations_that_are_none_are_refused(client: Client) -> None:
    client.create_dataset("d")
    found = client.get_dataset("d")
    found.default_table_expiration_ms = HOUR_MS - 1
    with pytest.raises(BadRequest, match="defaultTableExpirationMs"):
        client.update_dataset(found, ["default_table_expiration_ms"])
    table = bigquery.Table(f"{client.project}.d.t", schema=[bigquery.SchemaField("at", "TIMESTAMP")])
    table.expires = datetime(2001, 1, 1, tzinfo=UTC)
    with pytest.raises(BadRequest, match="not in the future"):
        client.create_table(table)
    with pytest.raises(NotFound):
        client.get_table(table.reference)
