"""REST v2 with the official client: datasets and tables, from creation to deletion."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from google.api_core import exceptions
from google.cloud import bigquery
from google.cloud.bigquery import SchemaField, Table

from support.ingest.rest_served import RestServed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from google.cloud.bigquery import Client

SCHEMA = [
    SchemaField("id", "INTEGER", "REQUIRED", description="which one"),
    SchemaField("at", "TIMESTAMP", default_value_expression="CURRENT_TIMESTAMP()"),
    SchemaField("name", "STRING", max_length=10),
    SchemaField("price", "NUMERIC", precision=10, scale=2),
    SchemaField(
        "lines",
        "RECORD",
        "REPEATED",
        fields=[
            SchemaField("sku", "STRING", "REQUIRED"),
            SchemaField("tags", "STRING", "REPEATED"),
            SchemaField("at", "RECORD", fields=[SchemaField("place", "GEOGRAPHY")]),
        ],
    ),
    SchemaField("stay", "RANGE", range_element_type="DATE"),
]


@pytest.fixture(scope="module")
def served() -> Iterator[RestServed]:
    with RestServed() as served:
        yield served


@pytest.fixture
def client(served: RestServed, request: pytest.FixtureRequest) -> Client:
    """A client with its own project."""
    return served.client(request.node.name.replace("_", "-")[:60])


@pytest.fixture
def dataset(client: Client) -> bigquery.Dataset:
    return client.create_dataset("d")


def test_a_dataset_is_created_described_listed_and_deleted(client: Client) -> None:
    wanted = bigquery.Dataset(f"{client.project}.sales")
    wanted.description, wanted.labels, wanted.location = "what was sold", {"team": "red"}, "EU"
    created = client.create_dataset(wanted)
    assert (created.description, created.labels, created.location) == ("what was sold", {"team": "red"}, "EU")
    assert created.created == created.modified
    client.create_dataset("other")
    assert [item.dataset_id for item in client.list_datasets()] == ["other", "sales"]
    assert [item.dataset_id for item in client.list_datasets(filter="labels.team:red")] == ["sales"]
    assert [item.dataset_id for item in client.list_datasets(page_size=1)] == ["other", "sales"]
    client.delete_dataset("sales")
    with pytest.raises(exceptions.NotFound, match="Not found: Dataset"):
        client.get_dataset("sales")
    client.delete_dataset("sales", not_found_ok=True)


def test_a_second_dataset_of_the_same_name_is_refused(client: Client, dataset: bigquery.Dataset) -> None:
    with pytest.raises(exceptions.Conflict, match="Already Exists"):
        client.create_dataset("d")
    assert client.create_dataset("d", exists_ok=True).etag == dataset.etag


def test_a_dataset_is_changed_only_with_its_current_etag(client: Client) -> None:
    seen = client.create_dataset("d")
    stale = client.get_dataset("d")
    seen.description, seen.labels = "first", {"a": "1", "b": "2"}
    changed = client.update_dataset(seen, ["description", "labels"])
    assert (changed.description, changed.labels) == ("first", {"a": "1", "b": "2"})
    stale.description = "second"
    with pytest.raises(exceptions.PreconditionFailed, match="etag"):
        client.update_dataset(stale, ["description"])
    changed.labels["a"] = None
    changed.description = None
    again = client.update_dataset(changed, ["description", "labels"])
    assert (again.description, again.labels) == (None, {"b": "2"})


def test_a_dataset_with_tables_is_deleted_only_with_its_contents(
    client: Client, dataset: bigquery.Dataset
) -> None:
    client.create_table(Table(dataset.table("t"), SCHEMA))
    with pytest.raises(exceptions.BadRequest, match="still in use"):
        client.delete_dataset("d")
    client.delete_dataset("d", delete_contents=True)
    assert list(client.list_datasets()) == []


def test_a_table_has_the_properties_it_was_created_with(client: Client, dataset: bigquery.Dataset) -> None:
    wanted = Table(dataset.table("orders"), SCHEMA)
    wanted.description, wanted.friendly_name, wanted.labels = "orders", "Orders", {"team": "red"}
    wanted.clustering_fields = ["name"]
    client.create_table(wanted)
    table = client.get_table(wanted)
    assert table.schema == SCHEMA
    assert (table.description, table.friendly_name, table.labels) == ("orders", "Orders", {"team": "red"})
    assert table.clustering_fields == ["name"]
    assert (table.num_rows, table.num_bytes, table.table_type) == (0, 0, "TABLE")
    assert table.location == "US"
    assert table.created == table.modified
    assert table.full_table_id == f"{client.project}:d.orders"


def test_a_second_table_of_the_same_name_is_refused(client: Client, dataset: bigquery.Dataset) -> None:
    table = Table(dataset.table("t"), SCHEMA)
    created = client.create_table(table)
    with pytest.raises(exceptions.Conflict, match="Already Exists: Table"):
        client.create_table(table)
    assert client.create_table(table, exists_ok=True).etag == created.etag


@pytest.mark.parametrize("unit", ["HOUR", "DAY", "MONTH", "YEAR"])
@pytest.mark.parametrize("field", ["at", None])
def test_a_table_has_its_time_partitioning(served: RestServed, unit: str, field: str | None) -> None:
    client = served.client(f"time-{unit}-{field}")
    table = Table(client.create_dataset("d").table("t"), SCHEMA)
    table.time_partitioning = bigquery.TimePartitioning(unit, field)
    table.require_partition_filter = True
    client.create_table(table)
    found = client.get_table(table)
    assert found.time_partitioning == bigquery.TimePartitioning(unit, field)
    assert found.require_partition_filter


def test_a_table_has_its_range_partitioning(client: Client, dataset: bigquery.Dataset) -> None:
    table = Table(dataset.table("t"), SCHEMA)
    ranges = bigquery.RangePartitioning(bigquery.PartitionRange(0, 100, 10), "id")
    table.range_partitioning = ranges
    client.create_table(table)
    assert client.get_table(table).range_partitioning == ranges
    [item] = client.list_tables("d")
    assert item.table_id == "t"


def test_tables_are_listed_in_pages(client: Client, dataset: bigquery.Dataset) -> None:
    names = [f"t{number}" for number in range(5)]
    for name in names:
        client.create_table(Table(dataset.table(name), SCHEMA))
    assert [item.table_id for item in client.list_tables("d", page_size=2)] == names
    assert [item.table_id for item in client.list_tables("d", max_results=3)] == names[:3]
    with pytest.raises(exceptions.NotFound):
        list(client.list_tables("nowhere"))


def test_a_schema_accepts_new_columns_and_refuses_other_changes(
    client: Client, dataset: bigquery.Dataset
) -> None:
    table = client.create_table(Table(dataset.table("t"), SCHEMA))
    relaxed = [SchemaField("id", "INTEGER", "NULLABLE"), *SCHEMA[1:], SchemaField("later", "JSON")]
    table.schema, table.description, table.labels = relaxed, "changed", {"a": "1"}
    changed = client.update_table(table, ["schema", "description", "labels"])
    assert (changed.schema, changed.description, changed.labels) == (relaxed, "changed", {"a": "1"})
    assert client.get_table(table).schema == relaxed
    changed.schema = relaxed[:-1]
    with pytest.raises(exceptions.BadRequest, match="'later' is missing"):
        client.update_table(changed, ["schema"])
    assert client.get_table(table).description == "changed"


def test_a_table_is_changed_only_with_its_current_etag(client: Client, dataset: bigquery.Dataset) -> None:
    first = client.create_table(Table(dataset.table("t"), SCHEMA))
    second = client.get_table(first)
    first.description = "first"
    client.update_table(first, ["description"])
    second.description = "second"
    with pytest.raises(exceptions.PreconditionFailed):
        client.update_table(second, ["description"])
    assert client.get_table(first).description == "first"


def test_a_deleted_table_is_gone(client: Client, dataset: bigquery.Dataset) -> None:
    table = client.create_table(Table(dataset.table("t"), SCHEMA))
    client.delete_table(table)
    with pytest.raises(exceptions.NotFound, match="Not found: Table"):
        client.get_table(table)
    with pytest.raises(exceptions.NotFound):
        client.delete_table(table)
    client.delete_table(table, not_found_ok=True)


def test_projects_are_those_with_datasets(client: Client) -> None:
    client.create_dataset("d")
    assert client.project in {project.project_id for project in client.list_projects()}
    assert client.get_service_account_email().endswith(".invalid")


def test_two_servers_on_a_store_agree(served: RestServed, client: Client, dataset: bigquery.Dataset) -> None:
    with RestServed(served.store) as other:
        client.create_table(Table(dataset.table("t"), SCHEMA))
        theirs = other.client(client.project)
        table = theirs.get_table("d.t")
        table.description = "theirs"
        theirs.update_table(table, ["description"])
        assert client.get_table("d.t").description == "theirs"


def test_an_access_list_is_stored_shown_and_changed(client: Client) -> None:
    wanted = bigquery.Dataset(f"{client.project}.listed")
    view = {"projectId": "p", "datasetId": "d", "tableId": "v"}
    entries = [
        bigquery.AccessEntry("READER", "userByEmail", "a@example.com"),
        bigquery.AccessEntry(None, "view", view),
    ]
    wanted.access_entries = entries
    assert client.create_dataset(wanted).access_entries == entries
    found = client.get_dataset("listed")
    found.access_entries = [
        *found.access_entries,
        bigquery.AccessEntry("OWNER", "specialGroup", "projectOwners"),
    ]
    client.update_dataset(found, ["access_entries"])
    assert len(client.get_dataset("listed").access_entries) == 3


def test_a_dataset_without_an_access_list_shows_that_of_the_service(client: Client) -> None:
    created = client.create_dataset("d")
    assert {entry.entity_id for entry in created.access_entries} == {
        "projectWriters",
        "projectOwners",
        "projectReaders",
    }
    assert {entry.role for entry in client.get_dataset("d").access_entries} == {"WRITER", "OWNER", "READER"}


def test_an_access_entry_names_one_entity(served: RestServed) -> None:
    entry = {"role": "READER", "userByEmail": "a@example.com", "domain": "example.com"}
    for access in ([entry], [{"role": "READER"}], [{"nobody": "x"}], "all"):
        body = {"datasetReference": {"datasetId": "unlisted"}, "access": access}
        status, answer = served.call("POST", "/bigquery/v2/projects/p/datasets", body)
        assert status == 400, answer


def test_every_permission_is_granted(client: Client) -> None:
    client.create_dataset("d")
    table = client.create_table(Table(f"{client.project}.d.t", schema=SCHEMA))
    wanted = ["bigquery.tables.getData", "bigquery.tables.update"]
    assert client.test_iam_permissions(table, wanted) == {"permissions": wanted}
    with pytest.raises(exceptions.NotFound):
        client.test_iam_permissions(f"{client.project}.d.none", wanted)


def test_without_sql_a_view_is_refused_with_the_reason(client: Client) -> None:
    client.create_dataset("d")
    view = Table(f"{client.project}.d.v")
    view.view_query = "SELECT 1"
    with pytest.raises(
        exceptions.MethodNotImplemented, match="Queries are not supported by this installation"
    ):
        client.create_table(view)


def test_clustering_is_changed_and_removed(client: Client) -> None:
    client.create_dataset("d")
    table = client.create_table(Table(f"{client.project}.d.t", schema=SCHEMA))
    table.clustering_fields = ["name", "id"]
    table = client.update_table(table, ["clustering_fields"])
    assert table.clustering_fields == ["name", "id"]
    table.clustering_fields = None
    assert client.update_table(table, ["clustering_fields"]).clustering_fields is None


def test_a_change_with_an_older_etag_is_refused(client: Client) -> None:
    client.create_dataset("d")
    first = client.create_table(Table(f"{client.project}.d.t", schema=SCHEMA))
    second = client.get_table(first.reference)
    first.description, second.description = "one", "two"
    client.update_table(first, ["description"])
    with pytest.raises(exceptions.PreconditionFailed):
        client.update_table(second, ["description"])
    assert client.get_table(first.reference).description == "one"
