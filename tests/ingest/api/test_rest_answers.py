"""REST answers with the fields and words of the service, partial responses and views."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from google.cloud import bigquery
from google.cloud.bigquery import SchemaField, Table
from google.cloud.bigquery_storage_v1 import types

from lode.ingest.api.rest.call import MAX_FIELDS_CHARS, apply_mask, parse_fields
from lode.ingest.catalog.dataset import DatasetName
from lode.ingest.names import TableName, parse_stream, parse_table
from lode.ingest.status import Refused
from lode.testing.plugin import LodeServer
from support.ingest.refusals import ends_with
from support.ingest.rest_served import RestServed

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = "/bigquery/v2/projects/p"
TABLES = ROOT + "/datasets/d/tables"
ANY = "<any>"


@pytest.fixture(scope="module")
def served() -> Iterator[RestServed]:
    with RestServed() as served:
        client = served.client()
        client.create_dataset("d")
        client.create_table(Table("p.d.t", [SchemaField("a", "INTEGER"), SchemaField("b", "STRING")]))
        yield served


def covers(found: Any, recorded: Any, where: str = "") -> None:
    """Check that an answer has the recorded values; it may have more."""
    if recorded == ANY:
        return
    if isinstance(recorded, dict):
        for key, value in recorded.items():
            assert key in found, f"{where}.{key}"
            covers(found[key], value, f"{where}.{key}")
    elif isinstance(recorded, list):
        assert len(found) == len(recorded), where
        for index, value in enumerate(recorded):
            covers(found[index], value, f"{where}[{index}]")
    else:
        assert found == recorded, where


# -- recorded answers --------------------------------------------------------------------------------

REFERENCE = {"projectId": "p", "datasetId": "d"}
RECORDED: list[tuple[str, str, dict[str, Any]]] = [
    (
        "datasets.get",
        ROOT + "/datasets/d",
        {
            "kind": "bigquery#dataset",
            "etag": ANY,
            "id": "p:d",
            "selfLink": ANY,
            "datasetReference": REFERENCE,
            "creationTime": ANY,
            "lastModifiedTime": ANY,
            "location": "US",
            "type": "DEFAULT",
            "maxTimeTravelHours": "168",
        },
    ),
    (
        "datasets.list",
        ROOT + "/datasets",
        {
            "kind": "bigquery#datasetList",
            "etag": ANY,
            "datasets": [
                {
                    "kind": "bigquery#dataset",
                    "id": "p:d",
                    "datasetReference": REFERENCE,
                    "location": "US",
                    "type": "DEFAULT",
                }
            ],
        },
    ),
    (
        "tables.get",
        TABLES + "/t",
        {
            "kind": "bigquery#table",
            "etag": ANY,
            "id": "p:d.t",
            "selfLink": ANY,
            "tableReference": {**REFERENCE, "tableId": "t"},
            "schema": {"fields": [{"name": "a", "type": "INTEGER"}, {"name": "b", "type": "STRING"}]},
            "numBytes": "0",
            "numLongTermBytes": "0",
            "numRows": "0",
            "creationTime": ANY,
            "lastModifiedTime": ANY,
            "type": "TABLE",
            "location": "US",
            "numTotalLogicalBytes": "0",
            "numActiveLogicalBytes": "0",
            "numLongTermLogicalBytes": "0",
        },
    ),
    (
        "tables.list",
        TABLES,
        {
            "kind": "bigquery#tableList",
            "etag": ANY,
            "tables": [
                {
                    "kind": "bigquery#table",
                    "id": "p:d.t",
                    "tableReference": {**REFERENCE, "tableId": "t"},
                    "type": "TABLE",
                    "creationTime": ANY,
                }
            ],
            "totalItems": 1,
        },
    ),
]


@pytest.mark.parametrize(("path", "recorded"), [case[1:] for case in RECORDED], ids=[c[0] for c in RECORDED])
def test_an_answer_has_the_fields_of_the_service(served: RestServed, path: str, recorded: Any) -> None:
    status, found = served.call("GET", path)
    assert status == 200
    covers(found, recorded)


def test_an_empty_list_has_no_items(served: RestServed) -> None:
    served.client().create_dataset("empty")
    status, tables = served.call("GET", ROOT + "/datasets/empty/tables")
    assert (status, tables) == (200, {"kind": "bigquery#tableList", "etag": tables["etag"], "totalItems": 0})
    status, datasets = served.call("GET", "/bigquery/v2/projects/nobody/datasets")
    assert (status, datasets) == (200, {"kind": "bigquery#datasetList", "etag": datasets["etag"]})
    served.client().delete_dataset("empty")


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "message"),
    [
        ("GET", ROOT + "/datasets/x", None, 404, "Not found: Dataset p:x"),
        ("GET", TABLES + "/x", None, 404, "Not found: Table p:d.x"),
        ("DELETE", TABLES + "/x", None, 404, "Not found: Table p:d.x"),
        ("POST", TABLES, {"tableReference": {"tableId": "t"}}, 409, "Already Exists: Table p:d.t"),
        (
            "POST",
            ROOT + "/datasets",
            {"datasetReference": {"datasetId": "d"}},
            409,
            "Already Exists: Dataset p:d",
        ),
    ],
)
def test_an_error_has_the_words_of_the_service(
    served: RestServed, method: str, path: str, body: Any, status: int, message: str
) -> None:
    found, answer = served.call(method, path, body)
    assert (found, answer["error"]["message"]) == (status, message)


COLUMNS = [
    {"name": "i", "type": "INT64"},
    {"name": "f", "type": "FLOAT64"},
    {"name": "b", "type": "BOOL"},
    {"name": "n", "type": "NUMERIC"},
    {"name": "ts", "type": "TIMESTAMP"},
    {"name": "dt", "type": "DATETIME"},
    {"name": "d", "type": "DATE"},
    {"name": "t", "type": "TIME"},
    {"name": "s", "type": "STRING"},
    {"name": "r", "type": "STRUCT", "fields": [{"name": "i", "type": "INT64"}]},
]


@pytest.mark.parametrize(
    ("row", "location", "message"),
    [
        ({"i": "not-a-number"}, "i", "Cannot convert value to integer (bad value): not-a-number"),
        ({"i": 5.69}, "i", "Cannot convert value to integer (bad value): 5.69"),
        ({"i": 2**63}, "i", f"Cannot convert value to integer (bad value): {2**63}"),
        ({"f": "SPY"}, "f", "Cannot convert value to floating point (bad value): SPY"),
        ({"b": "maybe"}, "b", "Cannot convert value to boolean (bad value): maybe"),
        ({"n": "x"}, "n", "Invalid NUMERIC value: x"),
        ({"n": "1e40"}, "n", "Invalid NUMERIC value: 1e40"),
        ({"n": [1]}, "n", "Array specified for non-repeated field: n."),
        (
            {"ts": "soon"},
            "ts",
            "Could not parse 'soon' as a timestamp. Required format is YYYY-MM-DD HH:MM[:SS[.SSSSSS]]",
        ),
        ({"dt": "2020-01-31 23:58:00 UTC"}, "dt", 'Invalid datetime string "2020-01-31 23:58:00 UTC"'),
        ({"d": "31.1.2020"}, "d", 'Invalid date string "31.1.2020"'),
        ({"t": "noon"}, "t", 'Invalid time string "noon"'),
        ({"s": ["a"]}, "s", "Array specified for non-repeated field: s."),
        ({"s": {"a": 1}}, "s", "This field: s is not a record."),
        ({"r": {"i": "x"}}, "r.i", "Cannot convert value to integer (bad value): x"),
        ({"r": {"i": [1]}}, "r.i", "Array specified for non-repeated field: r.i."),
        ({"r": {"nope": 1}}, "r.nope", "no such field: r.nope."),
        ({"nope": 1}, "nope", "no such field: nope."),
        ({"i": "{}"}, "i", "Cannot convert value to integer (bad value): {}"),
        ({"it's": 1}, "it's", "no such field: it's."),
    ],
)
def test_the_error_of_a_bad_value_has_the_words_of_the_service(
    served: RestServed, row: dict[str, Any], location: str, message: str
) -> None:
    served.call("POST", TABLES, {"tableReference": {"tableId": "words"}, "schema": {"fields": COLUMNS}})
    status, answer = served.call("POST", TABLES + "/words/insertAll", {"rows": [{"json": row}, {"json": {}}]})
    assert status == 200
    stopped = {"reason": "stopped", "location": "", "debugInfo": "", "message": ""}
    invalid = {"reason": "invalid", "location": location, "debugInfo": "", "message": message}
    assert answer["insertErrors"] == [
        {"index": 0, "errors": [invalid]},
        {"index": 1, "errors": [stopped]},
    ]


def test_the_error_of_a_missing_required_column_has_the_words_of_the_service(served: RestServed) -> None:
    required = [{"name": "id", "type": "INT64", "mode": "REQUIRED"}]
    served.call("POST", TABLES, {"tableReference": {"tableId": "req"}, "schema": {"fields": required}})
    _, answer = served.call("POST", TABLES + "/req/insertAll", {"rows": [{"json": {}}]})
    [error] = answer["insertErrors"][0]["errors"]
    assert (error["location"], error["message"]) == ("id", "Missing required field: id.")


# -- partial responses ---------------------------------------------------------------------------------

VALUE = {"a": 1, "b": {"c": 2, "d": {"e": 3, "f": 4}}, "l": [{"c": 1, "d": 2}, {"d": 3}]}


@pytest.mark.parametrize(
    ("fields", "kept"),
    [
        ("", VALUE),
        ("*", VALUE),
        ("a", {"a": 1}),
        ("a,b/c", {"a": 1, "b": {"c": 2}}),
        ("b/d/f", {"b": {"d": {"f": 4}}}),
        ("b(c,d/e)", {"b": {"c": 2, "d": {"e": 3}}}),
        ("b(d(e,f)),a", {"a": 1, "b": {"d": {"e": 3, "f": 4}}}),
        ("l(c)", {"l": [{"c": 1}, {}]}),
        ("l/d,nope", {"l": [{"d": 2}, {"d": 3}]}),
        ("*/c", {"a": 1, "b": {"c": 2}, "l": [{"c": 1}, {}]}),
    ],
)
def test_fields_select_parts_of_an_answer(fields: str, kept: Any) -> None:
    assert apply_mask(VALUE, parse_fields(fields)) == kept


@pytest.mark.parametrize(
    "fields",
    [",", "a,", ",a", "a,,b", "a(", "a()", "(a)", "a)", "a(b))", "a/", "/a", "a//b", "a(b)c", "a b", "é"],
)
def test_invalid_fields_are_refused(fields: str) -> None:
    with pytest.raises(Refused, match="Invalid value for fields"):
        parse_fields(fields)


@pytest.mark.parametrize("fields", ["(" * (1 << 20), "a(" * 4000, "a/" * 4000, "a," * 4000, ")" * 8000])
def test_hostile_fields_are_refused_at_once(fields: str) -> None:
    began = time.thread_time()
    with pytest.raises(Refused, match="Invalid value for fields"):
        parse_fields(fields)
    assert time.thread_time() - began < 0.5


def test_the_maximum_length_of_fields_is_accepted() -> None:
    names = ",".join(f"f{number}" for number in range(1200))
    assert len(names) < MAX_FIELDS_CHARS
    assert len(parse_fields(names)) == 1200


def test_an_answer_has_only_the_requested_fields(served: RestServed) -> None:
    status, found = served.call("GET", TABLES + "/t?fields=id,schema(fields/name)")
    assert (status, found) == (200, {"id": "p:d.t", "schema": {"fields": [{"name": "a"}, {"name": "b"}]}})
    status, found = served.call("GET", TABLES + "?fields=tables/id")
    assert (status, found["tables"][0]) == (200, {"id": found["tables"][0]["id"]})
    assert served.call("GET", TABLES + "/t?fields=id(")[0] == 400


def test_unknown_parameters_are_ignored(served: RestServed) -> None:
    status, found = served.call("GET", TABLES + "/t?alt=json&prettyPrint=false&quotaUser=x&nonsense=1&key=k")
    assert (status, found["id"]) == (200, "p:d.t")


# -- views, partitions, decorators ---------------------------------------------------------------------


def test_the_view_decides_whether_rows_are_counted(served: RestServed) -> None:
    for view, counted in (("BASIC", False), ("STORAGE_STATS", True), ("FULL", True), ("", True)):
        status, found = served.call("GET", f"{TABLES}/t?view={view}")
        assert (status, "numRows" in found) == (200, counted)
    status, found = served.call("GET", TABLES + "/t?view=BOGUS")
    assert status == 400
    assert "BASIC, STORAGE_STATS, FULL" in found["error"]["message"]
    assert served.call("GET", ROOT + "/datasets/d?datasetView=BOGUS")[0] == 400


def test_a_partitioned_table_has_its_number_of_partitions(served: RestServed) -> None:
    client = served.client()
    table = Table("p.d.parts", [SchemaField("day", "DATE")])
    table.time_partitioning = bigquery.TimePartitioning(field="day")
    client.create_table(table)
    assert served.call("GET", TABLES + "/parts")[1]["numPartitions"] == "0"
    for days in (["2026-01-01", "2026-01-02"], ["2026-01-02", "2026-01-03"]):
        assert client.insert_rows_json("p.d.parts", [{"day": day} for day in days]) == []
    assert served.call("GET", TABLES + "/parts")[1]["numPartitions"] == "3"
    assert "numPartitions" not in served.call("GET", TABLES + "/t")[1]


@pytest.mark.parametrize("name", ["t$20240101", "t$__PARTITIONS_SUMMARY__", "t@-3600000", "t@1500000000000"])
def test_a_decorator_is_refused_with_a_message(served: RestServed, name: str) -> None:
    reads = [("GET", f"{TABLES}/{name}", None), ("GET", f"{TABLES}/{name}/data", None)]
    writes: list[tuple[str, str, Any]] = [
        ("POST", f"{TABLES}/{name}/insertAll", {"rows": [{"json": {"a": 1}}]}),
        ("POST", TABLES, {"tableReference": {"tableId": name}}),
    ]
    # A partition can be read.
    for method, path, body in writes if "$" in name else [*reads, *writes]:
        status, answer = served.call(method, path, body)
        assert status == 400
        assert "which is not supported yet" in answer["error"]["message"]
    for read in (parse_table, parse_stream):
        with pytest.raises(Refused, match="not supported yet"):
            read(f"projects/p/datasets/d/tables/{name}" + ("/_default" if read is parse_stream else ""))


# -- locations and filters -----------------------------------------------------------------------------


def test_a_dataset_has_a_location_and_its_tables_have_the_same(served: RestServed) -> None:
    client = served.client()
    wanted = bigquery.Dataset("p.europe")
    wanted.location = "europe-west3"
    client.create_dataset(wanted)
    client.create_table(Table("p.europe.t", [SchemaField("a", "INTEGER")]))
    assert client.get_dataset("europe").location == "europe-west3"
    assert client.get_table("p.europe.t").location == "europe-west3"
    assert served.catalog.location_of(TableName("p", "europe", "t")) == "europe-west3"
    assert served.catalog.location_of(DatasetName("p", "d")) == "US"
    client.delete_dataset("europe", delete_contents=True)


@pytest.mark.parametrize("location", ["a b", "../x", "x" * 65, "\u202e", 7, {"a": 1}])
def test_an_invalid_location_is_refused(served: RestServed, location: Any) -> None:
    body = {"datasetReference": {"datasetId": "nowhere"}, "location": location}
    assert served.call("POST", ROOT + "/datasets", body)[0] == 400


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LodeServer]:
    running = LodeServer(tmp_path_factory.mktemp("filter") / "lake")
    yield running
    running.stop()


@pytest.mark.parametrize("older", [False, True])
def test_a_table_that_requires_a_filter_is_not_read_without_one(server: LodeServer, older: bool) -> None:
    name = f"p.d.filtered{int(older)}"
    inner = {"requirePartitionFilter": True} if older else {}
    outer = {} if older else {"requirePartitionFilter": True}
    time_partitioning = {"type": "DAY", "field": "Day", **inner}
    fields = [{"name": "Day", "type": "DATE"}, {"name": "id", "type": "INT64"}]
    table = server.create_table(name, fields, timePartitioning=time_partitioning, **outer)
    client: Any = server.bigquery_client("p")
    assert client.get_table(name).require_partition_filter
    assert client.insert_rows_json(name, [{"Day": "2026-01-01", "id": 1}]) == []
    assert [row["id"] for row in client.list_rows(name)] == [1]
    client.close()

    def read(restriction: str) -> Any:
        options = types.ReadSession.TableReadOptions(row_restriction=restriction)
        wanted = types.ReadSession(table=table, data_format=types.DataFormat.ARROW, read_options=options)
        return server.read_client().create_read_session(parent="projects/p", read_session=wanted, retry=None)

    for restriction in ("", "id = 1"):
        with ends_with(grpc.StatusCode.INVALID_ARGUMENT) as error:
            read(restriction)
        assert (
            f"Cannot query over table '{name}' without a filter over column(s) 'Day' that can be used for "
            "partition elimination" in str(error[0])
        )
    assert read("day >= '2026-01-01' AND id = 1").streams
