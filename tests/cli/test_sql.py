"""``sql``: DuckDB over datasets, snapshots and moments."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import lode

if TYPE_CHECKING:
    from pathlib import Path

    from cli.running import Run


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
    assert run("sql", "CREATE TABLE t (n INT)").out == ""


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
