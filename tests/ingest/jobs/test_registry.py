"""The registry of jobs: their states, ids, lists, cancellation, limits and life over a restart."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from lode.ingest.jobs import queue, registry
from lode.ingest.jobs.registry import Jobs
from lode.ingest.status import Code, Refused

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lode.ingest.jobs.job import Job


class Steps:
    """Jobs that wait until the test lets them go on."""

    durable = True
    workers = 4

    def __init__(self) -> None:
        self.go = threading.Event()
        self.begun = threading.Event()
        self.ran: list[str] = []

    def check(self, job: Job) -> None:
        if job.settings.get("bad"):
            raise Refused(Code.INVALID_ARGUMENT, "It is bad.")

    def run(self, job: Job) -> None:
        self.begun.set()
        self.go.wait()
        job.check_cancelled()
        self.ran.append(job.id)
        if job.settings.get("fails"):
            raise Refused(Code.INVALID_ARGUMENT, "It failed.", reason="invalidQuery", location="query")
        if job.settings.get("breaks"):
            raise RuntimeError("secret")
        job.statistics = {"load": {"outputRows": "3"}}


@pytest.fixture
def steps() -> Steps:
    return Steps()


@pytest.fixture
def jobs(steps: Steps, tmp_path: Path) -> Iterator[Jobs]:
    made = Jobs("US", tmp_path / "jobs")
    made.register("load", steps)
    yield made
    steps.go.set()
    made.close()


def load(**settings: Any) -> dict[str, Any]:
    return {"load": settings}


def test_a_job_is_running_until_its_work_is_done(jobs: Jobs, steps: Steps) -> None:
    job = jobs.insert("p", load(), id="one")
    steps.begun.wait()
    assert job.resource("")["status"] == {"state": "RUNNING"}
    assert not job.wait(0)
    steps.go.set()
    assert job.wait()
    found = jobs.get("p", "one").resource("http://host/")
    assert found["id"] == "p:US.one"
    assert found["status"] == {"state": "DONE"}
    assert found["configuration"]["jobType"] == "LOAD"
    assert found["statistics"]["load"] == {"outputRows": "3"}
    assert int(found["statistics"]["creationTime"]) <= int(found["statistics"]["endTime"])
    assert found["selfLink"] == "http://host/bigquery/v2/projects/p/jobs/one?location=US"


def test_an_id_is_used_once_in_a_project(jobs: Jobs, steps: Steps) -> None:
    steps.go.set()
    jobs.insert("p", load(), id="one").wait()
    with pytest.raises(Refused, match=r"^Already Exists: Job p:US\.one$") as caught:
        jobs.insert("p", load(), id="one")
    assert caught.value.code is Code.ALREADY_EXISTS
    jobs.insert("other", load(), id="one").wait()
    assert steps.ran == ["one", "one"]


def test_a_failure_has_the_shape_of_the_service(jobs: Jobs, steps: Steps) -> None:
    steps.go.set()
    job = jobs.insert("p", load(fails=True))
    job.wait()
    error = {"reason": "invalidQuery", "location": "query", "message": "It failed."}
    assert job.resource("")["status"] == {"state": "DONE", "errorResult": error, "errors": [error]}


def test_an_unexpected_failure_ends_the_job_without_its_details(jobs: Jobs, steps: Steps) -> None:
    steps.go.set()
    job = jobs.insert("p", load(breaks=True))
    job.wait()
    assert job.errors[0]["reason"] == "internalError"
    assert "secret" not in job.errors[0]["message"]


def test_a_refused_request_makes_no_job(jobs: Jobs) -> None:
    with pytest.raises(Refused, match="It is bad"):
        jobs.insert("p", load(bad=True), id="one")
    with pytest.raises(Refused, match=r"Not found: Job p:US\.one"):
        jobs.get("p", "one")


@pytest.mark.parametrize("configuration", [None, {}, [], {"load": 1}, {"load": {}, "copy": {}}])
def test_a_configuration_has_one_type(jobs: Jobs, configuration: Any) -> None:
    with pytest.raises(Refused) as caught:
        jobs.insert("p", configuration)
    assert caught.value.code is Code.INVALID_ARGUMENT


@pytest.mark.parametrize("id", ["a b", "../x", "ä", "x" * 1025, 7])
def test_an_invalid_id_is_refused(jobs: Jobs, id: Any) -> None:
    with pytest.raises(Refused, match=r"jobReference\.jobId"):
        jobs.insert("p", load(), id=id)


def test_a_type_that_nobody_registered_is_not_implemented(jobs: Jobs) -> None:
    with pytest.raises(Refused) as caught:
        jobs.insert("p", {"query": {}})
    assert caught.value.code is Code.UNIMPLEMENTED


def test_a_running_job_is_cancelled_at_its_next_check(jobs: Jobs, steps: Steps) -> None:
    job = jobs.insert("p", load())
    steps.begun.wait()
    jobs.cancel(job)
    steps.go.set()
    job.wait()
    assert job.errors[0]["reason"] == "stopped"
    assert steps.ran == []


def test_a_waiting_job_is_cancelled_at_once(jobs: Jobs) -> None:
    for _ in range(Steps.workers):
        jobs.insert("p", load())
    waiting = jobs.insert("p", load(), id="waiting")
    jobs.cancel(waiting)
    assert waiting.wait(0)
    assert waiting.failed


def test_a_job_that_cannot_wait_is_refused_and_leaves_nothing(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "MAX_WAITING_OF_CLIENT", 0)
    with pytest.raises(Refused) as caught:
        jobs.insert("p", load(), id="refused")
    assert caught.value.code is Code.RESOURCE_EXHAUSTED
    assert jobs.list("p") == []


def test_a_list_has_the_newest_first_and_goes_on_after_a_job(jobs: Jobs, steps: Steps) -> None:
    steps.go.set()
    for name in "abc":
        jobs.insert("p", load(), id=name).wait()
    jobs.insert("other", load()).wait()
    first = jobs.list("p", limit=2)
    assert [job.id for job in first] == ["c", "b"]
    assert [job.id for job in jobs.list("p", after="b", limit=2)] == ["a"]
    assert jobs.list("p", limit=9, keep=lambda job: job.state == "RUNNING") == []


def test_a_finished_job_can_be_deleted(jobs: Jobs, steps: Steps) -> None:
    job = jobs.insert("p", load(), id="one")
    with pytest.raises(Refused, match="still running"):
        jobs.delete(job)
    steps.go.set()
    job.wait()
    jobs.delete(job)
    with pytest.raises(Refused, match="Not found"):
        jobs.get("p", "one")


def test_finished_jobs_are_kept_up_to_a_limit(
    jobs: Jobs, steps: Steps, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "MAX_FINISHED", 2)
    steps.go.set()
    for name in "abcd":
        jobs.insert("p", load(), id=name).wait()
    jobs.close()
    assert [job.id for job in jobs.list("p", limit=9)] == ["d", "c"]
    assert len(list((tmp_path / "jobs").iterdir())) == 2


def test_finished_jobs_survive_a_restart(jobs: Jobs, steps: Steps, tmp_path: Path) -> None:
    steps.go.set()
    done = jobs.insert("p", load(note="ü"), id="one")
    failed = jobs.insert("p", load(fails=True), id="two")
    for job in (done, failed):
        job.wait()  # close stops the jobs that have not ended
    jobs.close()
    (tmp_path / "jobs" / "torn.json").write_text('{"project": ')
    after = Jobs("US", tmp_path / "jobs")
    for job in (done, failed):
        assert after.get("p", job.id).resource("") == job.resource("")
    after.register("load", steps)
    with pytest.raises(Refused, match="Already Exists"):
        after.insert("p", load(), id="one")
    after.close()


def test_a_job_that_was_stopped_with_the_server_can_begin_again(
    jobs: Jobs, steps: Steps, tmp_path: Path
) -> None:
    stopped = jobs.insert("p", load(), id="one")
    steps.begun.wait()
    closing = threading.Thread(target=jobs.close)
    closing.start()
    stopped._cancelled.wait()
    steps.go.set()
    closing.join()
    assert stopped.errors[0]["reason"] == "stopped"
    after = Jobs("US", tmp_path / "jobs")
    after.register("load", steps)
    again = after.insert("p", load(), id="one")
    after.close()
    assert again.state == "DONE"


def test_a_dry_run_is_waited_for_and_not_kept(jobs: Jobs, steps: Steps) -> None:
    steps.go.set()
    jobs.register("query", steps)
    job = jobs.check("p", {"query": {}}, payload=None)
    assert job.state == "DONE"
    assert jobs.list("p", limit=1) == []
    with pytest.raises(Refused, match="dry run of a load job"):
        jobs.insert("p", {"load": {}, "dryRun": True})
