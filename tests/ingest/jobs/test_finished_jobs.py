"""Finished jobs take little memory, stay complete, and those of one client do not replace those of others."""

from __future__ import annotations

import gc
import json
from typing import TYPE_CHECKING, Any

import pytest

from lode.ingest.api.rest import jobs as rest_jobs
from lode.ingest.jobs import registry
from lode.ingest.jobs.registry import Jobs
from lode.ingest.jobs.shape import MAX_QUERY_BYTES
from lode.ingest.status import Code, Refused
from lode.testing.plugin import LodeServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lode.ingest.jobs.job import Job

ROOT = "/bigquery/v2/projects/p"


class Quick:
    """Jobs that are done at once, or fail with a large object in their traceback."""

    workers = 1

    def __init__(self, *, durable: bool) -> None:
        self.durable = durable

    def check(self, job: Job) -> None:
        pass

    def run(self, job: Job) -> None:
        if job.settings.get("fails"):
            held = _Held()
            raise Refused(Code.INVALID_ARGUMENT, f"It failed with {held}." + "x" * 10_000)
        job.add_errors([{"reason": "invalid", "message": "a row"}])
        job.statistics = {job.kind: {"statementType": "SELECT"}}


class _Held:
    """Stands for what a job works on."""


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Jobs]:
    made = opened(tmp_path)
    yield made
    made.close()


def opened(tmp_path: Path) -> Jobs:
    made = Jobs("US", tmp_path / "jobs")
    made.register("query", Quick(durable=False))
    made.register("load", Quick(durable=True))
    return made


def done(jobs: Jobs, configuration: dict[str, Any], **more: Any) -> Job:
    job = jobs.insert("p", configuration, **more)
    assert job.wait(60)
    return job


def test_a_large_finished_job_is_on_disk_and_complete(jobs: Jobs, tmp_path: Path) -> None:
    text = "SELECT '" + "ü" * 100_000 + "'"
    job = done(jobs, {"query": {"query": text}, "labels": {"a": "b"}}, id="large", client="a")
    assert len(list((tmp_path / "jobs").iterdir())) == 1
    kept = {id(each) for each in gc.get_objects() if isinstance(each, dict) and each.get("query") == text}
    assert not kept
    resource = job.resource("")
    assert resource["configuration"] == {
        "query": {"query": text},
        "labels": {"a": "b"},
        "jobType": "QUERY",
    }
    assert resource["statistics"]["query"] == {"statementType": "SELECT"}
    assert resource["status"] == {"state": "DONE", "errors": [{"reason": "invalid", "message": "a row"}]}
    assert job.listed(full=True)["configuration"]["query"]["query"] == text


def test_a_small_finished_query_writes_no_file(jobs: Jobs, tmp_path: Path) -> None:
    done(jobs, {"query": {"query": "SELECT 1"}})
    assert list((tmp_path / "jobs").iterdir()) == []


def test_a_failed_job_keeps_nothing_of_what_it_worked_on(jobs: Jobs) -> None:
    job = done(jobs, {"query": {"query": "x", "fails": True}})
    done(jobs, {"query": {"query": "x"}})  # on the same thread, which has left the first
    gc.collect()
    assert not [each for each in gc.get_objects() if isinstance(each, _Held)]
    assert job.refusal is not None
    assert job.refusal.__traceback__ is None
    assert len(job.refusal.message) < 3000


def test_a_large_durable_job_is_known_and_complete_after_a_restart(jobs: Jobs, tmp_path: Path) -> None:
    configuration = {"load": {"note": "x" * 50_000}}
    done(jobs, configuration, id="one", client="a")
    done(jobs, {"query": {"query": "x" * 50_000}}, id="query")
    jobs.close()
    after = opened(tmp_path)
    job = after.get("p", "one")
    assert (job.resource("")["configuration"]["load"], job.client) == (configuration["load"], "a")
    with pytest.raises(Refused, match="Not found"):
        after.get("p", "query")
    assert len(list((tmp_path / "jobs").iterdir())) == 1
    after.close()


def test_a_record_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    record = {
        "project": "p",
        "id": "one",
        "location": "US",
        "kind": "load",
        "configuration": {"load": {}},
        "created_ms": 1,
        "started_ms": 2,
        "ended_ms": 3,
        "statistics": {},
        "errors": [],
        "failed": False,
    }
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "x.json").write_text(json.dumps(record))
    assert opened(tmp_path).get("p", "one").client == ""


def test_a_job_whose_record_vanished_is_still_answered(jobs: Jobs, tmp_path: Path) -> None:
    job = done(jobs, {"query": {"query": "x" * 50_000}})
    for file in (tmp_path / "jobs").iterdir():
        file.unlink()
    assert job.resource("")["configuration"] == {"query": {}, "jobType": "QUERY"}


def test_finished_jobs_of_one_client_do_not_replace_those_of_another(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "MAX_FINISHED", 10)
    done(jobs, {"load": {}}, id="mine", client="a")
    for _ in range(30):
        done(jobs, {"query": {"query": "x"}}, client="b")
    assert jobs.get("p", "mine").client == "a"
    assert len(jobs.list("p")) == 10


def test_the_bytes_of_finished_jobs_are_bounded(
    jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "MAX_FINISHED_BYTES", 100_000)
    done(jobs, {"load": {}}, id="mine", client="a")
    for _ in range(10):
        done(jobs, {"query": {"query": "x" * 30_000}}, client="b")
    assert jobs.get("p", "mine").client == "a"
    assert len(jobs.list("p")) == 4
    assert sum(file.stat().st_size for file in (tmp_path / "jobs").iterdir()) <= 100_000


def test_the_requests_of_waiting_jobs_are_bounded_by_client(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "MAX_CLIENT_WAITING_BYTES", 100)
    with pytest.raises(Refused, match="limits are") as refusal:
        jobs.insert("p", {"load": {}}, client="a", size=101)
    assert refusal.value.code is Code.RESOURCE_EXHAUSTED
    done(jobs, {"load": {}}, client="a", size=100)


def test_a_query_that_is_too_long_is_refused_before_there_is_a_job(jobs: Jobs) -> None:
    for text in ("x" * (MAX_QUERY_BYTES + 1), "é" * (MAX_QUERY_BYTES // 2 + 1)):
        with pytest.raises(Refused, match="maximum query length is 1,048,576 bytes"):
            jobs.insert("p", {"query": {"query": text}}, id="long")
    assert jobs.list("p") == []
    done(jobs, {"query": {"query": "x" * MAX_QUERY_BYTES}})


def test_every_finished_job_is_reported_once(tmp_path: Path) -> None:
    seen: list[tuple[str, str]] = []
    jobs = Jobs("US", tmp_path / "jobs", lambda job: seen.append((job.id, job.client)))
    jobs.register("load", Quick(durable=True))
    done(jobs, {"load": {}}, id="one", client="a")
    done(jobs, {"load": {"fails": True}}, id="two", client="b")
    jobs.close()
    assert seen == [("one", "a"), ("two", "b")]


def test_a_list_of_large_jobs_has_pages_of_bounded_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rest_jobs, "MAX_PAGE_BYTES", 100_000)
    server = LodeServer(tmp_path / "lake")
    try:
        with server.bigquery_client("p") as client:
            text = "SELECT 1 -- " + "x" * 40_000
            ids = {client.query_and_wait(text).job_id for _ in range(7)}
            path, seen, pages = f"{ROOT}/jobs", [], 0
            token = None
            while pages == 0 or token:
                found = client._connection.api_request(
                    "GET",
                    path.removeprefix("/bigquery/v2"),
                    query_params={"projection": "full", **({"pageToken": token} if token else {})},
                )
                assert len(json.dumps(found)) < 110_000
                seen += found["jobs"]
                token, pages = found.get("nextPageToken"), pages + 1
            assert {job["jobReference"]["jobId"] for job in seen} == ids
            assert pages == 4
            assert all(job["configuration"]["query"]["query"] == text for job in seen)
            assert {job.job_id for job in client.list_jobs()} == ids
            assert client.get_job(ids.pop()).query == text
    finally:
        server.stop()
