"""Queries of the official Python client and of pandas-gbq."""

from __future__ import annotations

import threading
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pandas_gbq  # type: ignore[import-untyped]
import pytest
from google.api_core.exceptions import BadRequest, Conflict, GoogleAPICallError, NotFound
from google.auth.credentials import AnonymousCredentials
from google.cloud import bigquery

if TYPE_CHECKING:
    from collections.abc import Callable

    from lode.testing.plugin import LodeServer

    Rows = Callable[[str], list[dict[str, Any]]]

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*deprecated.*", "ignore:.*will be changed to.*:PendingDeprecationWarning"
)


def ask(client: bigquery.Client, query: str, **config: Any) -> list[dict[str, Any]]:
    """The rows of a query, without retries of the client."""
    run: Any = client.query  # its types do not know that retries can be switched off
    job = run(query, bigquery.QueryJobConfig(**config), retry=None, job_retry=None)
    return [dict(row) for row in job.result(retry=None, job_retry=None)]


def refused(client: bigquery.Client, query: str, **config: Any) -> dict[str, Any]:
    """The error of a query."""
    with pytest.raises(GoogleAPICallError) as raised:
        ask(client, query, **config)
    found: dict[str, Any] = raised.value.errors[0] | {"http": raised.value.code}
    return found


@pytest.fixture
def filled(client: bigquery.Client, table: str) -> str:
    """A table with three rows."""
    ask(client, f"CREATE TABLE `{table}` (id INT64 NOT NULL, name STRING, price NUMERIC)")
    ask(client, f"INSERT INTO `{table}` VALUES (1, 'a', 1.5), (2, 'b', NULL), (3, NULL, 3)")
    return table


def test_every_type_comes_back_as_the_client_has_it(client: bigquery.Client) -> None:
    query = """
        SELECT 1 AS i, 1.5 AS f, NUMERIC '1.25' AS n, TRUE AS b, 'x' AS s, b'y' AS y, DATE '2026-11-15' AS d,
          DATETIME '2026-11-15 01:02:03' AS dt, TIMESTAMP '2026-11-15 01:02:03+00' AS ts,
          TIME '04:05:06' AS t, [1, 2] AS a, STRUCT(1 AS x, ['q'] AS z) AS r, JSON '{"k": [1]}' AS j,
          CAST(NULL AS STRING) AS nothing
    """
    (row,) = ask(client, query)
    assert row == {
        "i": 1,
        "f": 1.5,
        "n": Decimal("1.25"),
        "b": True,
        "s": "x",
        "y": b"y",
        "d": date(2026, 11, 15),
        "dt": datetime(2026, 11, 15, 1, 2, 3),
        "ts": datetime(2026, 11, 15, 1, 2, 3, tzinfo=UTC),
        "t": time(4, 5, 6),
        "a": [1, 2],
        "r": {"x": 1, "z": ["q"]},
        "j": {"k": [1]},
        "nothing": None,
    }


def test_a_query_reads_tables_with_joins_groups_and_windows(client: bigquery.Client, filled: str) -> None:
    rows = ask(
        client,
        f"""WITH t AS (SELECT id, price FROM `{filled}`)
        SELECT t.id, SUM(t.price) OVER (ORDER BY t.id) AS total, u.name
        FROM t LEFT JOIN `{filled}` AS u ON u.id = t.id
        QUALIFY ROW_NUMBER() OVER (ORDER BY t.id) < 3 ORDER BY 1""",
    )
    assert rows == [
        {"id": 1, "total": Decimal("1.5"), "name": "a"},
        {"id": 2, "total": Decimal("1.5"), "name": "b"},
    ]


def test_parameters_are_named_or_positional_arrays_and_structs(client: bigquery.Client) -> None:
    named = [
        bigquery.ScalarQueryParameter("n", "INT64", 2),
        bigquery.ArrayQueryParameter("names", "STRING", ["a", "b'; DROP"]),
        bigquery.StructQueryParameter("s", bigquery.ScalarQueryParameter("x", "DATE", date(2026, 1, 2))),
    ]
    query = "SELECT @n + 1 AS n, @names AS names, @s.x AS x"
    assert ask(client, query, query_parameters=named) == [
        {"n": 3, "names": ["a", "b'; DROP"], "x": date(2026, 1, 2)}
    ]
    positional = [
        bigquery.ScalarQueryParameter(None, "STRING", "a"),
        bigquery.ScalarQueryParameter(None, "INT64", None),
    ]
    assert ask(client, "SELECT ? AS a, ? AS b", query_parameters=positional) == [{"a": "a", "b": None}]


def test_query_and_wait_and_pandas_gbq_read_rows(client: bigquery.Client, filled: str) -> None:
    assert [row.id for row in client.query_and_wait(f"SELECT id FROM `{filled}` ORDER BY id")] == [1, 2, 3]
    frame = pandas_gbq.read_gbq(
        f"SELECT id, name FROM `{filled}` WHERE id < 3 ORDER BY id",
        project_id="p",
        bigquery_client=client,
        credentials=AnonymousCredentials(),  # type: ignore[no-untyped-call]  # google-auth has no types here
        progress_bar_type=None,
    )
    assert list(frame["id"]) == [1, 2]


def test_a_dry_run_has_the_schema_and_runs_nothing(client: bigquery.Client, filled: str) -> None:
    config = bigquery.QueryJobConfig(dry_run=True)
    job = client.query(f"SELECT id, price FROM `{filled}`", config)
    assert [(field.name, field.field_type) for field in job.schema or ()] == [
        ("id", "INTEGER"),
        ("price", "NUMERIC"),
    ]
    assert job.total_bytes_processed > 0
    client.query(f"DELETE FROM `{filled}` WHERE TRUE", config)
    assert ask(client, f"SELECT COUNT(*) AS n FROM `{filled}`") == [{"n": 3}]


def test_results_are_read_in_pages(client: bigquery.Client) -> None:
    query = "SELECT x FROM UNNEST(GENERATE_ARRAY(1, 25)) AS x ORDER BY x"
    pages = [[row.x for row in page] for page in client.query(query).result(page_size=10).pages]
    assert pages == [list(range(1, 11)), list(range(11, 21)), list(range(21, 26))]
    assert [row.x for row in client.query(query).result(start_index=20, max_results=3)] == [21, 22, 23]


def test_a_large_result_is_read_through_the_read_api(client: bigquery.Client, server: LodeServer) -> None:
    query = "SELECT x, CONCAT('row ', CAST(x AS STRING)) AS s FROM UNNEST(GENERATE_ARRAY(1, 120000)) AS x"
    job = client.query(query)
    result = job.result()
    assert result.total_rows == 120_000
    assert job.destination.dataset_id.startswith("_")
    table = result.to_arrow(bqstorage_client=server.read_client())
    assert table.num_rows == 120_000
    values: Any = table.column("x").to_pylist()
    assert sorted(values) == list(range(1, 120_001))


def test_a_request_id_runs_a_query_once(client: bigquery.Client, filled: str, rows: Rows) -> None:
    path = "/projects/p/queries"
    body = {"query": f"INSERT INTO `{filled}` (id) VALUES (9)", "useLegacySql": False, "requestId": "once"}
    send: Any = client._connection.api_request  # without types
    first, second = (send(method="POST", path=path, data=body) for _ in range(2))
    assert first["jobReference"] == second["jobReference"]
    assert second["numDmlAffectedRows"] == "1"
    assert [row["id"] for row in rows(filled)].count(9) == 1


def test_timestamps_are_integers_if_asked_for(client: bigquery.Client) -> None:
    body = {
        "query": "SELECT TIMESTAMP '1970-01-01 00:00:01+00' AS t",
        "useLegacySql": False,
        "formatOptions": {"useInt64Timestamp": True},
    }
    send: Any = client._connection.api_request  # without types
    answer = send(method="POST", path="/projects/p/queries", data=body)
    assert answer["rows"] == [{"f": [{"v": "1000000"}]}]


# -- changes ------------------------------------------------------------------------------------------------


def test_each_change_is_one_snapshot_with_its_number_of_rows(
    client: bigquery.Client, server: LodeServer, filled: str, rows: Rows
) -> None:
    def change(query: str) -> tuple[int | None, bigquery.job.query.DmlStats | None]:
        job = client.query(query)
        job.result()
        return job.num_dml_affected_rows, job.dml_stats

    before = len(list(server.dataset(filled).history()))
    assert change(f"UPDATE `{filled}` SET price = price * 2, name = 'z' WHERE id <> 2")[0] == 2
    assert change(f"DELETE FROM `{filled}` WHERE id = 2")[0] == 1
    count, stats = change(
        f"""MERGE `{filled}` AS t
        USING (SELECT 1 AS id, 'm' AS name UNION ALL SELECT 7, 'new') AS s ON t.id = s.id
        WHEN MATCHED THEN UPDATE SET name = s.name
        WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, s.name)
        WHEN NOT MATCHED BY SOURCE THEN DELETE"""
    )
    assert count == 3
    assert stats is not None
    assert (stats.inserted_row_count, stats.updated_row_count, stats.deleted_row_count) == (1, 1, 1)
    assert len(list(server.dataset(filled).history())) == before + 3
    assert sorted((row["id"], row["name"]) for row in rows(filled)) == [(1, "m"), (7, "new")]
    assert change(f"TRUNCATE TABLE `{filled}`")[0] == 2
    assert rows(filled) == []


def test_a_change_keeps_rows_that_are_appended_meanwhile(
    client: bigquery.Client, table: str, rows: Rows
) -> None:
    ask(client, f"CREATE TABLE `{table}` (id INT64, n INT64)")
    appended = 12

    def append() -> None:
        for number in range(appended):
            assert client.insert_rows_json(table, [{"id": number, "n": 0}]) == []

    thread = threading.Thread(target=append)
    thread.start()
    for _ in range(4):
        ask(client, f"UPDATE `{table}` SET n = n + 1 WHERE TRUE")
    thread.join()
    ask(client, f"UPDATE `{table}` SET n = n + 1 WHERE TRUE")
    found = rows(table)
    assert sorted(row["id"] for row in found) == list(range(appended))
    assert all(row["n"] >= 1 for row in found)


def test_an_append_finishes_while_a_long_query_runs(client: bigquery.Client, filled: str) -> None:
    numbers = "UNNEST(GENERATE_ARRAY(1, 1000000))"
    long = client.query(f"SELECT SUM(MOD(a * b, 7)) FROM {numbers} a, {numbers} b")
    assert client.insert_rows_json(filled, [{"id": 4}]) == []
    assert ask(client, f"SELECT COUNT(*) AS n FROM `{filled}`") == [{"n": 4}]
    assert not long.done()
    long.cancel()
    with pytest.raises(GoogleAPICallError):
        long.result(retry=None, job_retry=None)


# -- tables -------------------------------------------------------------------------------------------------


def test_tables_are_created_altered_and_dropped(client: bigquery.Client, table: str) -> None:
    ask(
        client,
        f"""CREATE TABLE `{table}` (day DATE, s STRUCT<a INT64, b ARRAY<STRING>>, n NUMERIC(10, 2) DEFAULT 1)
        PARTITION BY day CLUSTER BY day OPTIONS(description = 'about')""",
    )
    made = client.get_table(table)
    assert made.time_partitioning.field == "day"
    assert made.description == "about"
    assert [field.field_type for field in made.schema] == ["DATE", "RECORD", "NUMERIC"]
    ask(client, f"ALTER TABLE `{table}` ADD COLUMN extra STRING")
    ask(client, f"INSERT INTO `{table}` (day, s, extra) VALUES (DATE '2026-11-15', STRUCT(1, ['x']), 'e')")
    assert ask(client, f"SELECT * FROM `{table}`") == [
        {"day": date(2026, 11, 15), "s": {"a": 1, "b": ["x"]}, "n": Decimal(1), "extra": "e"}
    ]
    ask(client, f"ALTER TABLE `{table}` DROP COLUMN extra")
    ask(client, f"ALTER TABLE `{table}` ADD COLUMN extra STRING")
    assert ask(client, f"SELECT extra FROM `{table}`") == [{"extra": None}]
    assert client.list_partitions(table) == ["20261115"]
    ask(client, f"DROP TABLE `{table}`")
    with pytest.raises(NotFound):
        client.get_table(table)


def test_a_query_is_written_to_a_destination(client: bigquery.Client, table: str, rows: Rows) -> None:
    ask(client, "SELECT 1 AS x", destination=table)
    assert rows(table) == [{"x": 1}]
    assert refused(client, "SELECT 2 AS x", destination=table)["reason"] == "duplicate"
    ask(client, "SELECT 2 AS x", destination=table, write_disposition="WRITE_APPEND")
    assert sorted(row["x"] for row in rows(table)) == [1, 2]
    ask(client, "SELECT 'y' AS y", destination=table, write_disposition="WRITE_TRUNCATE")
    assert ask(client, f"SELECT * FROM `{table}`") == [{"y": "y"}]
    ask(client, f"CREATE OR REPLACE TABLE `{table}` AS SELECT 5 AS z")
    assert ask(client, f"SELECT * FROM `{table}`") == [{"z": 5}]


def test_a_view_shows_the_rows_of_its_tables(client: bigquery.Client, filled: str) -> None:
    ask(client, f"CREATE VIEW `{filled}_v` AS SELECT id + 1 AS next FROM `{filled}`")
    assert ask(client, f"SELECT MAX(next) AS m FROM `{filled}_v`") == [{"m": 4}]
    assert refused(client, f"DELETE FROM `{filled}_v` WHERE TRUE")["http"] == 400


def test_the_past_is_read_for_system_time(client: bigquery.Client, filled: str) -> None:
    moment = ask(client, "SELECT CURRENT_TIMESTAMP() AS now")[0]["now"]
    ask(client, f"DELETE FROM `{filled}` WHERE id > 1")
    past = f"SELECT COUNT(*) AS n FROM `{filled}` FOR SYSTEM_TIME AS OF TIMESTAMP '{moment.isoformat()}'"
    assert ask(client, past) == [{"n": 3}]
    assert ask(client, f"SELECT COUNT(*) AS n FROM `{filled}`") == [{"n": 1}]


def test_information_schema_lists_tables_columns_and_options(client: bigquery.Client, table: str) -> None:
    ask(client, f"CREATE TABLE `{table}` (id INT64 NOT NULL, tags ARRAY<STRING>) OPTIONS(description = 'd')")
    name = table.rpartition(".")[2]
    columns = ask(
        client,
        "SELECT column_name, data_type, is_nullable FROM p.d.INFORMATION_SCHEMA.COLUMNS "
        f"WHERE table_name = '{name}' ORDER BY ordinal_position",
    )
    assert [tuple(row.values()) for row in columns] == [
        ("id", "INT64", "NO"),
        ("tags", "ARRAY<STRING>", "YES"),
    ]
    tables = f"SELECT table_type FROM d.INFORMATION_SCHEMA.TABLES WHERE table_name = '{name}'"
    assert ask(client, tables) == [{"table_type": "BASE TABLE"}]
    options = f"SELECT option_value FROM d.INFORMATION_SCHEMA.TABLE_OPTIONS WHERE table_name = '{name}'"
    assert ask(client, options) == [{"option_value": '"d"'}]
    schemata = "SELECT schema_name FROM INFORMATION_SCHEMA.SCHEMATA WHERE schema_name = 'd'"
    assert ask(client, schemata) == [{"schema_name": "d"}]


# -- refusals -----------------------------------------------------------------------------------------------


def test_information_schema_lists_jobs(client: bigquery.Client, filled: str) -> None:
    config = bigquery.QueryJobConfig(labels={"a": "b"})
    done = client.query(f"DELETE FROM `{filled}` WHERE id = 1", job_config=config)
    done.result()
    failed = client.query("SELECT 1 / 0 AS x")
    with pytest.raises(GoogleAPICallError):
        failed.result()
    query = """SELECT job_id, statement_type, state, error_result.reason AS reason, labels,
        dml_statistics.deleted_row_count AS deleted, query, end_time >= creation_time AS ordered
        FROM {} WHERE job_id = @id"""
    for view in ("`region-us`.INFORMATION_SCHEMA.JOBS", "p.`region-us`.INFORMATION_SCHEMA.JOBS_BY_PROJECT"):
        found = []
        for job in (done, failed):
            id = bigquery.ScalarQueryParameter("id", "STRING", job.job_id)
            found += ask(client, query.format(view), query_parameters=[id])
        assert [each["statement_type"] for each in found] == ["DELETE", "SELECT"]
        assert [each["reason"] for each in found] == [None, "invalidQuery"]
        assert [each["deleted"] for each in found] == [1, None]
        assert [each["state"] for each in found] == ["DONE", "DONE"]
        assert found[0]["labels"] == [{"key": "a", "value": "b"}]
        assert found[1]["query"] == "SELECT 1 / 0 AS x"
        assert found[0]["ordered"] is True
    assert refused(client, "SELECT 1 FROM d.INFORMATION_SCHEMA.JOBS")["reason"] == "notFound"


def test_information_schema_lists_routines(client: bigquery.Client) -> None:
    ask(client, "CREATE OR REPLACE FUNCTION d.twice_listed(x INT64) RETURNS INT64 AS (x * 2)")
    ask(client, "CREATE OR REPLACE PROCEDURE d.listed(x INT64) BEGIN SELECT x; END")
    query = """SELECT routine_name, routine_type, data_type, routine_definition
        FROM d.INFORMATION_SCHEMA.ROUTINES WHERE routine_name LIKE '%listed' ORDER BY routine_name"""
    assert [tuple(row.values()) for row in ask(client, query)] == [
        ("listed", "PROCEDURE", None, "BEGIN SELECT x; END"),
        ("twice_listed", "FUNCTION", "INT64", "x * 2"),
    ]


def test_errors_have_the_reason_and_the_status_of_the_service(client: bigquery.Client, table: str) -> None:
    missing = refused(client, f"SELECT * FROM `{table}`")
    assert (missing["http"], missing["reason"]) == (404, "notFound")
    assert f"Not found: Table {table.replace('.', ':', 1)} was not found" in missing["message"]
    wrong = refused(client, "SELECT x FROM UNNEST([1]) AS y")
    assert (wrong["http"], wrong["reason"], wrong["location"]) == (400, "invalidQuery", "query")
    assert "Unrecognized name: x at [1:8]" in wrong["message"]
    assert refused(client, "CREATE MODEL m OPTIONS(x = 1) AS SELECT 1")["http"] == 501
    with pytest.raises(GoogleAPICallError, match="Legacy SQL is not supported"):
        ask(client, "SELECT 1", use_legacy_sql=True)
    with pytest.raises(BadRequest, match="UPDATE must have a WHERE clause"):
        ask(client, f"UPDATE `{table}` SET a = 1")
    ask(client, f"CREATE TABLE `{table}` (a INT64)")
    with pytest.raises(Conflict, match="Already Exists"):
        ask(client, f"CREATE TABLE `{table}` (a INT64)")


def test_a_query_is_bounded_by_bytes_and_time(client: bigquery.Client, filled: str) -> None:
    with pytest.raises(GoogleAPICallError, match="exceeded limit for bytes billed"):
        ask(client, f"SELECT * FROM `{filled}`", maximum_bytes_billed=1)
    numbers = "UNNEST(GENERATE_ARRAY(1, 20000))"
    with pytest.raises(GoogleAPICallError, match="time limit"):
        ask(
            client,
            f"SELECT SUM(MOD(a * b, c)) FROM {numbers} a, {numbers} b, {numbers} c",
            job_timeout_ms=200,
        )


def test_names_lead_to_no_other_lake(client: bigquery.Client) -> None:
    for name in ("../secret", "p.d.../../state", "`p.d`.`..`", "p.catalog.lake", "/etc/passwd"):
        with pytest.raises(GoogleAPICallError):
            ask(client, f"SELECT * FROM `{name}`" if "`" not in name else f"SELECT * FROM {name}")


def test_a_function_of_a_dataset_is_kept_and_called(client: bigquery.Client, server: LodeServer) -> None:
    ask(client, "CREATE FUNCTION d.twice(x INT64) RETURNS INT64 AS (x * 2)")
    assert ask(client, "SELECT d.twice(21) AS v, `p.d`.Twice(1) AS w, p.d.twice(d.twice(1)) AS u") == [
        {"v": 42, "w": 2, "u": 4}
    ]
    with pytest.raises(GoogleAPICallError, match=r"Already Exists: Routine p:d\.twice"):
        ask(client, "CREATE FUNCTION d.twice(x INT64) AS (x)")
    ask(client, "CREATE FUNCTION IF NOT EXISTS d.twice(x INT64) AS (x)")
    changed = client.get_dataset("d")
    changed.description = "kept"
    client.update_dataset(changed, ["description"])
    ask(client, "CREATE OR REPLACE FUNCTION d.twice(x ANY TYPE) AS (CONCAT(x, x))")
    with server.bigquery_client("p") as other:
        assert ask(other, "SELECT d.twice('a') AS v") == [{"v": "aa"}]
    assert "routines" not in client.get_dataset("d")._properties
    ask(client, "DROP FUNCTION d.twice")
    for query in ("SELECT d.twice(1)", "SELECT nowhere.twice(1)", "DROP FUNCTION d.twice"):
        with pytest.raises(GoogleAPICallError, match="twice"):
            ask(client, query)
    ask(client, "DROP FUNCTION IF EXISTS d.twice")
    with pytest.raises(GoogleAPICallError, match="CREATE TABLE FUNCTION is not supported"):
        ask(client, "CREATE TABLE FUNCTION d.rows(x INT64) AS SELECT x AS y")


def test_a_function_of_a_dataset_reaches_no_file_and_does_not_call_itself(client: bigquery.Client) -> None:
    ask(client, "CREATE FUNCTION d.file() AS ((SELECT content FROM read_text('/etc/passwd')))")
    with pytest.raises(GoogleAPICallError, match="Function not found: read_text"):
        ask(client, "SELECT d.file()")
    ask(client, "CREATE FUNCTION d.loop(x INT64) AS (d.loop(x))")
    with pytest.raises(GoogleAPICallError, match="without an end"):
        ask(client, "SELECT d.loop(1)")


def test_a_view_is_queried_and_never_read_as_a_table_without_rows(
    client: bigquery.Client, server: LodeServer, filled: str
) -> None:
    view = f"{filled}_view"
    ask(client, f"CREATE VIEW `{view}` AS SELECT id FROM `{filled}`")
    assert len(ask(client, f"SELECT * FROM `{view}`")) == 3
    with pytest.raises(BadRequest, match="Cannot list a table of type VIEW"):
        list(client.list_rows(view))
    with pytest.raises(BadRequest, match="Cannot list a table of type VIEW"):
        client.copy_table(view, f"{filled}_copy").result()
    with pytest.raises(BadRequest, match="Cannot list a table of type VIEW"):
        client.extract_table(view, "gs://bucket/view.csv").result()
    read: Any = server.read_client()
    with read, pytest.raises(GoogleAPICallError, match="Cannot list a table of type"):
        client.list_rows(client.get_table(view)).to_arrow(bqstorage_client=read)
    with pytest.raises(NotFound):
        client.get_table(f"{filled}_copy")


def test_results_of_queries_are_not_listed(client: bigquery.Client) -> None:
    assert len(ask(client, "SELECT REPEAT('x', 1000) FROM UNNEST(GENERATE_ARRAY(1, 2000))")) == 2000
    assert [each.dataset_id for each in client.list_datasets()] == ["d"]
    assert "_lode_results" in [each.dataset_id for each in client.list_datasets(include_all=True)]
    assert ask(client, "SELECT schema_name FROM INFORMATION_SCHEMA.SCHEMATA") == [{"schema_name": "d"}]


def test_a_session_is_refused_and_a_script_has_no_other_jobs_as_its_parts(client: bigquery.Client) -> None:
    with pytest.raises(GoogleAPICallError, match="Sessions are not supported"):
        ask(client, "CREATE TEMP TABLE x AS SELECT 1 AS a", create_session=True)
    job = client.query("SELECT 1; SELECT 2")
    job.result()
    assert list(client.list_jobs(parent_job=job)) == []


def test_a_view_is_created_and_changed_by_the_client(client: bigquery.Client, filled: str) -> None:
    view = bigquery.Table(f"{filled}_view")
    view.view_query = f"SELECT id, name FROM `{filled}`"
    view.description = "names"
    made = client.create_table(view)
    assert (made.table_type, made.description, [each.name for each in made.schema]) == (
        "VIEW",
        "names",
        ["id", "name"],
    )
    assert len(ask(client, f"SELECT name FROM `{filled}_view`")) == 3
    made.view_query = f"SELECT MAX(id) AS top FROM `{filled}`"
    changed = client.update_table(made, ["view_query"])
    assert (changed.description, changed.view_query) == ("names", made.view_query)
    assert ask(client, f"SELECT * FROM `{filled}_view`") == [{"top": 3}]
    changed.labels = {"a": "b"}
    assert client.update_table(changed, ["labels"]).view_query == made.view_query
    assert ask(client, f"SELECT * FROM `{filled}_view`") == [{"top": 3}]


def test_a_view_of_a_table_that_requires_a_filter(client: bigquery.Client, table: str) -> None:
    ask(
        client,
        f"CREATE TABLE {table} (n INT64, day DATE) PARTITION BY day OPTIONS (require_partition_filter=TRUE)",
    )
    view = bigquery.Table(f"{table}_view")
    view.view_query = f"SELECT * FROM `{table}`"
    client.create_table(view)
    assert ask(client, f"SELECT n FROM `{table}_view` WHERE day = '2026-01-01'") == []
    found = refused(client, f"SELECT n FROM `{table}_view`")
    assert "without a filter over column(s) 'day'" in found["message"]


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT * FROM d.missing", "Not found: Table"),
        ("SELECT 1 AS a; DROP TABLE d.other", "must be one SELECT"),
        ("DROP TABLE d.other", "must be one SELECT"),
        ("SELEC 1", "Syntax error"),
    ],
)
def test_a_view_has_one_valid_query(client: bigquery.Client, table: str, query: str, reason: str) -> None:
    ask(client, "CREATE TABLE IF NOT EXISTS d.other (a INT64)")
    view = bigquery.Table(table)
    view.view_query = query
    with pytest.raises(GoogleAPICallError, match=reason):
        client.create_table(view)
    with pytest.raises(NotFound):
        client.get_table(table)
    assert ask(client, "SELECT COUNT(*) AS c FROM d.other") == [{"c": 0}]
    plain = client.create_table(bigquery.Table(table, schema=[bigquery.SchemaField("a", "INTEGER")]))
    plain.view_query = "SELECT 1 AS a"
    with pytest.raises(BadRequest, match="cannot become a view"):
        client.update_table(plain, ["view_query"])
