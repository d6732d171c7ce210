"""``sql``: DuckDB over datasets, snapshots and moments."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import lode

if TYPE_CHECKING:
    from pathlib import Path

    from support.cli.running import Run


@pytest.mark.usefixtures("visits")
def test_every_dataset_is_a_view_under_its_name(run: Run, lake: Path) -> None:
    lode.Dataset("pages-2", str(lake), codec="jsonl").write([{"page": "/", "title": "Home"}])
    query = 'SELECT title, sum(visits) AS n FROM visits JOIN "pages-2" USING (page) GROUP BY title'
    assert run("sql", query).json == [{"title": "Home", "n": 3}]
    assert run("sql", "-", stdin=b"SELECT count(*) AS n FROM VISITS v, visits w").json == [{"n": 9}]


@pytest.mark.usefixtures("visits")
def test_a_query_can_look_at_one_snapshot_or_at_the_past(run: Run) -> None:
    assert run("sql", 'SELECT count(*) AS n FROM "visits@1"').json == [{"n": 2}]
    assert run("sql", 'SELECT day FROM "visits@latest"').json == [{"day": "wed"}]
    assert run("sql", "SELECT count(*) AS n FROM visits", "--as-of", "1").json == [{"n": 2}]
    both = 'SELECT (SELECT count(*) FROM visits) AS now, (SELECT count(*) FROM "visits@1") AS then'
    assert run("sql", both).json == [{"now": 3, "then": 2}]


def test_a_flat_dataset_is_named_beside_the_query(run: Run, lake: Path) -> None:
    lode.Dataset("flat", str(lake), codec="jsonl", layout=lode.FlatLayout()).write([{"n": 1}])
    assert run("sql", "SELECT n FROM flat", "-d", "flat").json == [{"n": 1}]


@pytest.mark.usefixtures("visits")
def test_the_answer_has_any_format(run: Run) -> None:
    query = "SELECT day, visits FROM visits ORDER BY day"
    assert run("sql", query, "-f", "csv", "-n", "1").lines == ['"day","visits"', '"mon",3']
    assert run("sql", query, "-f", "table", "-n", "2").lines == [
        "day  visits",
        "mon       3",
        "tue       5",
        "… more than 2 rows: --limit shows more",
    ]
    assert run("sql", "SET threads = 1").out == ""


@pytest.mark.usefixtures("visits")
@pytest.mark.parametrize(
    ("verb", "query"),
    [
        ("INSERT", "INSERT INTO visits VALUES ('thu', '/', 1)"),
        ("INSERT", "INSERT INTO nothing VALUES (1)"),
        ("INSERT", "WITH row AS (SELECT 1) INSERT INTO visits SELECT * FROM row"),
        ("UPDATE", "UPDATE visits SET visits = 0"),
        ("DELETE", "DELETE FROM visits"),
        ("DELETE", "TRUNCATE visits"),
        ("ALTER", "ALTER TABLE visits ADD COLUMN n INT"),
        ("DROP", "DROP TABLE visits"),
        ("CREATE", "CREATE TABLE new (n INT)"),
        ("CREATE", "create or replace view visits AS SELECT 1"),
    ],
)
def test_a_statement_that_writes_is_refused_with_the_commands_that_do(
    run: Run, verb: str, query: str
) -> None:
    ended = run("sql", query)
    sentence = (
        f"lode: {verb} changes data, and lode sql only reads: use lode write, overwrite, delete or merge\n"
    )
    assert (ended.code, ended.out, ended.err) == (2, "", sentence)


def test_a_query_may_have_tables_of_its_own(run: Run) -> None:
    script = "CREATE TABLE t (n INT); INSERT INTO t VALUES (1), (2); SELECT sum(n) AS n FROM t"
    assert run("sql", script).json == [{"n": 3}]


@pytest.mark.usefixtures("visits")
def test_what_duckdb_refuses_is_one_sentence(run: Run) -> None:
    for query, code in (
        ("SELEC 1", 2),
        ("SELECT nothing FROM visits", 2),
        ("SELECT * FROM nothing", 3),
        ("SELECT CAST('x' AS INT)", 1),
        ('SELECT * FROM "visits@9"', 3),
    ):
        ended = run("sql", query)
        assert (ended.code, ended.out) == (code, "")
        assert ended.err.startswith("lode: ")
        assert ended.err.count("\n") == 1


def test_without_duckdb_the_error_names_the_extra() -> None:
    script = (
        "import sys\n"
        "sys.modules['duckdb'] = None\n"
        "from lode.cli import main\n"
        "sys.exit(main(['sql', 'SELECT 1']))\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr == (
        "lode: lode sql needs duckdb, which is not installed: pip install 'lode-store[sql]'\n"
    )


@pytest.mark.usefixtures("visits")
def test_show_tables_lists_the_datasets_that_have_rows(run: Run, lake: Path) -> None:
    lode.Dataset("pages", str(lake), codec="jsonl").write([{"page": "/", "title": "Home"}])
    lode.Dataset("backups", str(lake)).write(b"blob")
    lode.Dataset.create("empty", str(lake), codec="parquet")
    assert run("sql", "SHOW TABLES").json == [{"name": name} for name in ("empty", "pages", "visits")]
    listed = run("sql", "SELECT table_name AS t FROM information_schema.tables ORDER BY t").json
    assert [line["t"] for line in listed] == ["empty", "pages", "visits"]


@pytest.mark.usefixtures("visits")
def test_describe_and_information_schema_have_the_columns(run: Run, lake: Path) -> None:
    lode.Dataset("pages", str(lake), codec="jsonl").write([{"page": "/"}])
    described = run("sql", "DESCRIBE visits").json
    assert [(line["column_name"], line["column_type"]) for line in described] == [
        ("day", "VARCHAR"),
        ("page", "VARCHAR"),
        ("visits", "BIGINT"),
    ]
    query = "SELECT column_name AS c FROM information_schema.columns WHERE table_name = 'pages'"
    assert run("sql", query).json == [{"c": "page"}]


@pytest.mark.usefixtures("visits")
def test_a_dataset_that_cannot_be_read_hides_no_other_in_the_list(run: Run, lake: Path) -> None:
    (lake / "datasets" / "broken" / "snapshots" / "1").mkdir(parents=True)
    (lake / "datasets" / "broken" / "snapshots" / "1" / "manifest.json").write_text("no manifest")
    ended = run("sql", "SHOW TABLES")
    assert (ended.code, ended.json) == (0, [{"name": "visits"}])
    assert "datasets/broken" in ended.err


@pytest.mark.usefixtures("visits")
def test_a_misspelt_table_is_answered_with_the_dataset_that_is_meant(run: Run) -> None:
    ended = run("sql", "SELECT * FROM vists")
    assert (ended.code, ended.err.endswith("did you mean 'visits'?\n")) == (3, True)


def test_several_statements_run_in_order_and_the_last_answers(run: Run, visits: lode.Dataset) -> None:
    query = "CREATE TABLE t AS SELECT * FROM visits; SELECT count(*) AS n FROM t, visits"
    assert run("sql", query).json == [{"n": visits.plan().row_count ** 2}]


def test_a_variable_of_the_program_is_no_table(run: Run) -> None:
    assert run("sql", "SELECT * FROM text").code == 3


def test_a_name_with_dots_is_quoted(run: Run, lake: Path) -> None:
    lode.Dataset("shop.web", str(lake), codec="jsonl").write([{"n": 1}])
    assert run("sql", 'SELECT n FROM "shop.web"').json == [{"n": 1}]
    ended = run("sql", "SELECT n FROM shop.web")
    assert (ended.code, ended.err.endswith('write it in double quotes, "shop.web"\n')) == (2, True)


def test_every_name_of_a_snapshot_is_a_table(run: Run, visits: lode.Dataset) -> None:
    first = visits.snapshot(1)
    for name in (1, "latest~1", first.id, first.id[:19], first.manifest.created_at):
        assert run("sql", f'SELECT count(*) AS n FROM "visits@{name}"').json == [{"n": 2}]


def test_a_query_opens_only_files_that_can_match_and_names_a_damaged_one(run: Run, lake: Path) -> None:
    days = lode.Dataset.create(
        "days", str(lake), schema={"day": "string", "n": "int64"}, partition_by=["day"]
    )
    mon, tue = (days.write([{"day": day, "n": 1}]).files[0].path for day in ("mon", "tue"))
    (lake / mon).write_bytes(b"x")
    assert run("sql", "SELECT n FROM days WHERE day = 'tue'").json == [{"n": 1}]
    for query in ("SELECT * FROM days", "SELECT sum(n) FROM days", "CREATE TABLE t AS SELECT * FROM days"):
        ended = run("sql", query)
        assert (ended.code, ended.err.count("\n")) == (1, 1)
        assert ended.err.startswith(f"lode: {mon} has 1 bytes, its manifest says ")
    (lake / tue).unlink()
    ended = run("sql", "SELECT n FROM days WHERE day = 'tue'")
    assert (ended.code, ended.err) == (3, f"lode: no object '{tue}'\n")


@pytest.mark.usefixtures("visits")
def test_a_query_is_written_in_the_dialect_of_bigquery(run: Run) -> None:
    query = (
        "SELECT day, SAFE_DIVIDE(visits, 0) AS v, FORMAT('%03d', visits) AS f FROM visits ORDER BY 1 LIMIT 1"
    )
    assert run("sql", query, "--dialect", "bigquery").json == [{"day": "mon", "v": None, "f": "003"}]
    past = "SELECT COUNT(*) AS n FROM visits"
    assert run("sql", past, "--dialect", "bigquery", "--as-of", "1").json == [{"n": 2}]


@pytest.mark.usefixtures("visits")
def test_another_dialect_reads_no_files_and_changes_nothing(run: Run) -> None:
    for query in (
        "SELECT * FROM read_csv('/etc/passwd')",
        "DELETE FROM visits WHERE TRUE",
        "SELECT 1; SELECT 2",
    ):
        assert run("sql", query, "--dialect", "bigquery").code == 2
    assert run("sql", "SELECT * FROM nothing", "--dialect", "bigquery").code == 3
    assert "duckdb or bigquery" in run("sql", "SELECT 1", "--dialect", "mysql").err
