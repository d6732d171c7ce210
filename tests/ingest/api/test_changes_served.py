"""Change data capture with the official Python clients: keys over REST, changes over the default stream."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from google.api_core.exceptions import BadRequest
from google.cloud import bigquery
from google.cloud.bigquery import SchemaField
from google.cloud.bigquery.table import ColumnReference, ForeignKey, PrimaryKey, TableConstraints
from google.cloud.bigquery_storage_v1 import types
from google.cloud.bigquery_storage_v1.writer import AppendRowsStream

from support.ingest.appending import Call, Field, arrow_request, columns, message_class, row_descriptor
from support.ingest.helper_streams import answer_of

if TYPE_CHECKING:
    from google.cloud.bigquery import Client

    from lode.testing.plugin import LodeServer

SCHEMA = [SchemaField("id", "INTEGER", "REQUIRED"), SchemaField("name", "STRING")]
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def client(server: LodeServer) -> Client:
    client = server.bigquery_client("p")
    client.create_dataset("d", exists_ok=True)
    return client


def primary_key(*names: str) -> TableConstraints:
    return TableConstraints(primary_key=PrimaryKey(columns=list(names)), foreign_keys=None)


def key_of(table: bigquery.Table) -> list[str]:
    constraints: Any = table.table_constraints
    found: list[str] = constraints.primary_key.columns
    return found


def keyed(client: Client, *names: str) -> bigquery.Table:
    table = bigquery.Table(f"p.d.keyed{next(_numbers)}", schema=SCHEMA)
    if names:
        table.table_constraints = TableConstraints(
            primary_key=PrimaryKey(columns=list(names)), foreign_keys=None
        )
    return client.create_table(table)


def default_of(table: bigquery.Table) -> str:
    return f"projects/{table.project}/datasets/{table.dataset_id}/tables/{table.table_id}/streams/_default"


def names_in(client: Client, table: bigquery.Table) -> dict[int, str]:
    rows = list(client.list_rows(client.get_table(table.reference)))
    found = {row["id"]: row["name"] for row in rows}
    assert len(found) == len(rows)
    return found


def changes(*rows: tuple[str, int, str | None, str | None]) -> pa.RecordBatch:
    kinds, ids, names, sequences = zip(*rows, strict=True)
    schema: Any = {
        "id": pa.int64(),
        "name": pa.string(),
        "_CHANGE_TYPE": pa.string(),
        "_CHANGE_SEQUENCE_NUMBER": pa.string(),
    }
    return pa.RecordBatch.from_arrays(
        [
            pa.array(values, kind)
            for values, kind in zip((ids, names, kinds, sequences), schema.values(), strict=True)
        ],
        schema=pa.schema(schema),
    )


def test_a_primary_key_is_stored_shown_and_changed(client: Client) -> None:
    table = keyed(client, "ID")
    found = client.get_table(table.reference)
    assert key_of(found) == ["ID"]
    found.table_constraints = TableConstraints(
        primary_key=PrimaryKey(columns=["id", "name"]), foreign_keys=None
    )
    found.max_staleness = "0-0 0 0:15:0"
    changed = client.update_table(found, ["table_constraints", "max_staleness"])
    assert key_of(changed) == ["id", "name"]
    assert client.get_table(table.reference).max_staleness == "0-0 0 0:15:0"
    changed.table_constraints = None
    assert client.update_table(changed, ["table_constraints"]).table_constraints is None


def test_a_foreign_key_is_stored_and_shown(client: Client) -> None:
    other = keyed(client, "id")
    table = bigquery.Table(f"p.d.keyed{next(_numbers)}", schema=SCHEMA)
    key = ForeignKey("fk", other.reference, [ColumnReference("id", "id")])
    table.table_constraints = TableConstraints(primary_key=None, foreign_keys=[key])
    client.create_table(table)
    constraints: Any = client.get_table(table.reference).table_constraints
    shown = constraints.foreign_keys
    assert [(each.name, each.referenced_table) for each in shown] == [("fk", other.reference)]


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (["missing"], "no column"),
        (["id", "ID"], "twice"),
        (["spot"], "GEOGRAPHY|FLOAT64|types"),
        (["tags"], "REPEATED"),
        ([f"c{number}" for number in range(17)], "1 to 16"),
    ],
)
def test_a_key_of_unfit_columns_is_refused(client: Client, names: list[str], says: str) -> None:
    more = [SchemaField("spot", "FLOAT64"), SchemaField("tags", "STRING", "REPEATED")]
    more += [SchemaField(f"c{number}", "STRING") for number in range(17)]
    table = bigquery.Table(f"p.d.keyed{next(_numbers)}", schema=[*SCHEMA, *more])
    table.table_constraints = primary_key(*names)
    with pytest.raises(BadRequest, match=says):
        client.create_table(table)


def test_a_max_staleness_that_is_no_interval_is_refused(client: Client) -> None:
    table = keyed(client, "id")
    table.max_staleness = "soon"
    with pytest.raises(BadRequest, match="maxStaleness"):
        client.update_table(table, ["max_staleness"])


@pytest.mark.parametrize("form", ["arrow", "protobuf"])
def test_the_helper_sends_changes(server: LodeServer, client: Client, form: str) -> None:
    table = keyed(client, "id")
    template = types.AppendRowsRequest(write_stream=default_of(table))
    described = row_descriptor()
    for number, name in ((3, "_CHANGE_TYPE"), (4, "_CHANGE_SEQUENCE_NUMBER")):
        described.field.add(name=name, number=number, type=Field.TYPE_STRING, label=Field.LABEL_OPTIONAL)
    if form == "arrow":
        sample = changes(("UPSERT", 1, "x", "1"))
        template.arrow_rows.writer_schema.serialized_schema = sample.schema.serialize().to_pybytes()
    else:
        template.proto_rows.writer_schema.proto_descriptor = described
    make = message_class(described)

    def request(*rows: tuple[str, int, str | None, str | None]) -> types.AppendRowsRequest:
        made = types.AppendRowsRequest()
        if form == "arrow":
            made.arrow_rows.rows.serialized_record_batch = changes(*rows).serialize().to_pybytes()
            return made
        for kind, id, name, sequence in rows:
            sent = make(id=id, name=name, _CHANGE_TYPE=kind, _CHANGE_SEQUENCE_NUMBER=sequence)
            made.proto_rows.rows.serialized_rows.append(sent.SerializeToString())
        return made

    stream: Any = AppendRowsStream(server.write_client(), template)
    first = stream.send(request(("UPSERT", 1, "a", "1"), ("UPSERT", 2, "b", "1"), ("UPSERT", 3, "c", "1")))
    second = stream.send(request(("UPSERT", 1, "new", "3"), ("DELETE", 2, None, "2")))
    third = stream.send(request(("UPSERT", 1, "late", "2"), ("UPSERT", 2, "late", "1/F")))
    for future in (first, second, third):
        answer_of(future)
    stream.close()
    assert names_in(client, table) == {1: "new", 3: "c"}


def test_a_table_of_sql_takes_changes_and_keeps_them_under_another_name(
    client: Client, server: LodeServer
) -> None:
    name = f"keyed{next(_numbers)}"
    columns = "id INT64 NOT NULL, name STRING, PRIMARY KEY (id) NOT ENFORCED"
    client.query_and_wait(f"CREATE TABLE d.{name} ({columns}) OPTIONS (max_staleness = INTERVAL 15 MINUTE)")
    table = client.get_table(f"p.d.{name}")
    assert (key_of(table), table.max_staleness) == (["id"], "0-0 0 0:15:0")
    with Call(server.write_client()) as call:
        call.ask(
            arrow_request(default_of(table), changes(("UPSERT", 1, "new", "9"), ("UPSERT", 2, "b", "1")))
        )
    client.query_and_wait(f"ALTER TABLE d.{name} RENAME TO {name}_renamed")
    renamed = client.get_table(f"p.d.{name}_renamed")
    with Call(server.write_client()) as call:
        # The number of a row's last change is known under the other name, too.
        late = changes(("UPSERT", 1, "late", "8"), ("DELETE", 2, None, "2"))
        assert not call.ask(arrow_request(default_of(renamed), late)).error.code
    assert names_in(client, renamed) == {1: "new"}


def test_the_columns_of_changes_are_not_shown(client: Client, server: LodeServer) -> None:
    table = keyed(client, "id")
    with Call(server.write_client()) as call:
        call.ask(arrow_request(default_of(table), changes(("UPSERT", 1, "a", "1"))))
    assert [field.name for field in client.get_table(table.reference).schema] == ["id", "name"]
    found = client.list_rows(client.get_table(table.reference)).to_arrow(create_bqstorage_client=False)
    assert found.column_names == ["id", "name"]


def test_changes_on_another_stream_than_the_default_one_are_refused(
    client: Client, server: LodeServer
) -> None:
    table = keyed(client, "id")
    parent = default_of(table).removesuffix("/streams/_default")
    for kind in (1, 2, 3):
        stream = server.write_client().create_write_stream(
            parent=parent, write_stream=types.WriteStream(type_=kind)
        )
        with Call(server.write_client()) as call:
            error = call.ask(arrow_request(stream.name, changes(("UPSERT", 1, "a", None)))).error
        assert error.code == 3
        assert "not a valid CHANGE_TYPE in insert mode: UPSERT" in error.message
    assert names_in(client, table) == {}


def test_changes_and_inserted_rows_do_not_mix_on_a_call(client: Client, server: LodeServer) -> None:
    table = keyed(client, "id")
    stream = default_of(table)
    plain = columns(id=[2], name=["b"])
    change = changes(("UPSERT", 1, "a", None))
    with Call(server.write_client()) as call:
        assert not call.ask(arrow_request(stream, change)).error.code
        assert "CHANGE_TYPE" in call.ask(arrow_request(stream, plain)).error.message
    with Call(server.write_client()) as call:
        assert not call.ask(arrow_request(stream, plain)).error.code
        assert "in insert mode: UPSERT" in call.ask(arrow_request(stream, change)).error.message
    assert names_in(client, table) == {1: "a", 2: "b"}


def test_changes_of_a_table_without_a_key_are_refused_with_the_reason(
    client: Client, server: LodeServer
) -> None:
    table = keyed(client)
    with Call(server.write_client()) as call:
        error = call.ask(arrow_request(default_of(table), changes(("UPSERT", 1, "a", None)))).error
    assert error.code == 3
    assert "primary keys of the table are required" in error.message


def test_a_bad_change_is_named_and_none_of_its_request_is_applied(client: Client, server: LodeServer) -> None:
    table = keyed(client, "id")
    sent = changes(("UPSERT", 1, "a", "1"), ("UPSERT", 2, "b", "x"), ("MERGE", 3, "c", "1"))
    with Call(server.write_client()) as call:
        answer = call.ask(arrow_request(default_of(table), sent))
    assert [error.index for error in answer.row_errors] == [1, 2]
    assert names_in(client, table) == {}
