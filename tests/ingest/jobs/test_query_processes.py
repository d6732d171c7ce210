"""Queries of a server run in processes of their own: what ends them, and what is left then."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from google.api_core.client_options import ClientOptions
from google.api_core.exceptions import GoogleAPICallError
from google.auth.credentials import AnonymousCredentials
from google.cloud import bigquery

from support.ingest.processes import ServerProcess

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc"),
    pytest.mark.filterwarnings("ignore:.*deprecated.*"),
]

_NUMBERS = "UNNEST(GENERATE_ARRAY(1, 1000000))"
ENDLESS = f"SELECT SUM(MOD(a * b, 7)) AS s FROM {_NUMBERS} a, {_NUMBERS} b"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    made = ServerProcess(tmp_path / "lake", "--query-bytes", "256MiB", "--grace", "1")
    yield made
    made.kill()


@pytest.fixture
def client(server: ServerProcess) -> Iterator[bigquery.Client]:
    made: Any = bigquery.Client(
        "p",
        AnonymousCredentials(),  # type: ignore[no-untyped-call]
        client_options=ClientOptions(api_endpoint=server.http_url),
    )
    with made:
        yield made


def ask(client: bigquery.Client, query: str, **config: Any) -> list[dict[str, Any]]:
    """The rows of a query, without retries of the client."""
    run: Any = client.query
    job = run(query, bigquery.QueryJobConfig(**config), retry=None, job_retry=None)
    return [dict(row) for row in job.result(retry=None, job_retry=None)]


def refused(client: bigquery.Client, query: str, **config: Any) -> str:
    with pytest.raises(GoogleAPICallError) as caught:
        ask(client, query, **config)
    return str(caught.value.errors[0]["reason"])


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += [int(each) for each in (task / "children").read_text("ascii").split()]
    return found


def busy_child(server: ServerProcess) -> int:
    """A process of the server that computes."""
    for _ in range(600):
        for pid in children(server.pid):
            fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
            if int(fields[11]) > 2 * os.sysconf("SC_CLK_TCK"):
                return pid
        time.sleep(0.1)
    raise AssertionError("no process computes")


def test_a_query_whose_process_is_killed_has_one_error_and_the_next_query_works(
    server: ServerProcess, client: bigquery.Client
) -> None:
    with ThreadPoolExecutor(1) as beside:
        error = beside.submit(refused, client, ENDLESS)
        os.kill(busy_child(server), signal.SIGKILL)
        assert error.result() == "backendError"
    assert ask(client, "SELECT 1 AS x") == [{"x": 1}]


def test_a_late_query_ends_and_its_process_answers_the_next(
    server: ServerProcess, client: bigquery.Client
) -> None:
    ask(client, "SELECT 1 AS x")
    (before,) = children(server.pid)
    assert refused(client, ENDLESS, job_timeout_ms=300) == "timeout"
    assert ask(client, "SELECT 1 AS x") == [{"x": 1}]
    assert children(server.pid) == [before]


def test_a_query_that_lacks_memory_is_not_repeated_by_clients(client: bigquery.Client) -> None:
    wide = "SELECT ARRAY_LENGTH(ARRAY_AGG(REPEAT(CAST(a AS STRING), 10000))) AS n"
    assert refused(client, f"{wide} FROM {_NUMBERS} a") == "resourcesExceeded"
    assert ask(client, "SELECT 1 AS x") == [{"x": 1}]


def test_rows_of_any_width_are_sent_within_the_memory_of_a_query(client: bigquery.Client) -> None:
    wide = "SELECT REPEAT(CAST(a AS STRING), 10000) AS s FROM UNNEST(GENERATE_ARRAY(1, 5000)) a"
    assert ask(client, f"SELECT MAX(LENGTH(s)) AS n FROM ({wide})") == [{"n": 40000}]
    assert sum(1 for _ in client.query(wide).result()) == 5000


def test_a_script_keeps_the_rows_of_its_last_statement_only(
    server: ServerProcess, client: bigquery.Client
) -> None:
    large = "SELECT REPEAT('x', 1000000) AS s FROM UNNEST(GENERATE_ARRAY(1, 100))"
    script = f"DECLARE n INT64 DEFAULT 0; WHILE n < 8 DO {large}; SET n = n + 1; END WHILE; SELECT n AS n;"
    assert ask(client, script) == [{"n": 8}]
    assert len(ask(client, f"SELECT 1 AS x; {large};")) == 100
    assert _resident(server.pid) < 700 << 20
    assert list((Path(server.root) / "ingest-state" / "results").iterdir()) == []


def _resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_a_cancelled_query_ends(server: ServerProcess, client: bigquery.Client) -> None:
    job = client.query(ENDLESS)
    busy_child(server)
    client.cancel_job(job.job_id, location=job.location)
    with pytest.raises(GoogleAPICallError, match="cancelled"):
        job.result(retry=None)


def test_many_dry_runs_at_once_take_two_processes(server: ServerProcess, client: bigquery.Client) -> None:
    most: list[int] = []
    done = threading.Event()

    def count() -> None:
        while not done.wait(0.02):
            most.append(len(children(server.pid)))

    with ThreadPoolExecutor(17) as beside:
        counting = beside.submit(count)
        deep = "SELECT " + "ABS(" * 40 + "1" + ")" * 40
        list(beside.map(lambda _: ask(client, deep, dry_run=True), range(40)))
        done.set()
        counting.result()
    assert max(most) <= 2


def test_a_server_that_stops_ends_its_queries(server: ServerProcess, client: bigquery.Client) -> None:
    with ThreadPoolExecutor(1) as beside:
        beside.submit(ask, client, ENDLESS)
        pid = busy_child(server)
        assert server.terminate() == 0
    assert not Path(f"/proc/{pid}").exists()


def test_a_server_that_is_killed_leaves_no_process(server: ServerProcess, client: bigquery.Client) -> None:
    with ThreadPoolExecutor(1) as beside:
        beside.submit(ask, client, ENDLESS)
        pid = busy_child(server)
        server.kill()
    for _ in range(600):
        if not Path(f"/proc/{pid}/cmdline").exists() or not Path(f"/proc/{pid}/cmdline").read_bytes():
            return
        time.sleep(0.1)
    raise AssertionError("the process goes on")


def test_a_script_whose_process_is_killed_does_not_say_that_nothing_was_changed(
    server: ServerProcess, client: bigquery.Client
) -> None:
    client.create_dataset("d")
    ask(client, "CREATE TABLE d.m (a INT64)")
    with ThreadPoolExecutor(1) as beside:
        error = beside.submit(refused, client, f"INSERT INTO d.m VALUES (1); {ENDLESS}")
        os.kill(busy_child(server), signal.SIGKILL)
        assert error.result() == "invalidQuery"  # clients repeat a backendError
    assert ask(client, "SELECT COUNT(*) AS n FROM d.m") == [{"n": 1}]


def test_a_script_goes_on_after_an_error_in_rows_that_the_server_had_begun_to_write(
    client: bigquery.Client,
) -> None:
    client.create_dataset("d")
    ask(client, "CREATE TABLE d.n (a INT64 NOT NULL, b STRING)")
    ask(client, "INSERT INTO d.n SELECT a, 'x' FROM UNNEST(GENERATE_ARRAY(1, 200000)) a")
    failing = "UPDATE d.n SET a = NULL WHERE TRUE"
    script = (
        f"BEGIN {failing}; EXCEPTION WHEN ERROR THEN SELECT @@error.message AS m; END; SELECT 'next' AS n"
    )
    assert ask(client, script) == [{"n": "next"}]


def test_dry_runs_that_wait_when_the_server_stops_are_answered_at_once(
    server: ServerProcess, client: bigquery.Client
) -> None:
    slow = f"SELECT 1 IN ({', '.join(map(str, range(60_000)))})"
    codes: list[int] = []

    def check() -> None:
        try:
            ask(client, slow, dry_run=True)
        except GoogleAPICallError as error:
            codes.append(error.code or 0)

    with ThreadPoolExecutor(3) as beside:
        for _ in range(3):
            beside.submit(check)
        busy_child(server)
        assert server.terminate() == 0
    assert codes == [503, 503, 503]
