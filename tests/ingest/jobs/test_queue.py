"""The queue of work: slots by kind, a share for each client, and limits of what waits."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from lode.ingest.jobs import queue as queues
from lode.ingest.jobs.queue import WorkQueue
from lode.ingest.status import Code, Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future


class Work:
    """Work that runs until it may end, and notes who has begun in which order."""

    def __init__(self, queue: WorkQueue) -> None:
        self.queue = queue
        self.begun: list[str] = []
        self._may_end: dict[str, threading.Event] = {}
        self._changed = threading.Condition()

    def submit(self, client: str, name: str) -> Future[None]:
        self._may_end[name] = threading.Event()
        return self.queue.submit("query", client, self._run(name))

    def _run(self, name: str) -> Callable[[], None]:
        def run() -> None:
            with self._changed:
                self.begun.append(name)
                self._changed.notify_all()
            self._may_end[name].wait()

        return run

    def wait_for(self, *names: str) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: set(names) <= set(self.begun), 60)

    def end(self, *names: str) -> None:
        for name in names or tuple(self._may_end):
            self._may_end[name].set()


@pytest.fixture
def work() -> Iterator[Work]:
    queue = WorkQueue()
    queue.add_kind("query", 2)
    made = Work(queue)
    yield made
    made.end()
    queue.close()


def test_one_client_leaves_a_slot_to_others(work: Work) -> None:
    work.submit("a", "a1")
    work.submit("a", "a2")
    work.submit("b", "b1")
    work.wait_for("a1", "b1")
    assert sorted(work.begun) == ["a1", "b1"]


def test_clients_that_wait_take_turns(work: Work) -> None:
    for name in ("a1", "a2", "a3"):
        work.submit("a", name)
    for name in ("b1", "b2"):
        work.submit("b", name)
    work.wait_for("a1", "b1")
    work.end("a1", "b1", "a2", "b2", "a3")
    work.wait_for("a1", "a2", "a3", "b1", "b2")


def test_a_kind_with_one_slot_gives_it_to_any_client() -> None:
    queue = WorkQueue()
    queue.add_kind("load", 1)
    assert queue.submit("load", "a", lambda: "done").result(60) == "done"
    queue.close()


def test_the_error_of_work_is_in_its_future_and_its_slot_is_free_again(work: Work) -> None:
    def fail() -> None:
        raise ValueError("it failed")

    with pytest.raises(ValueError, match="it failed"):
        work.queue.submit("query", "a", fail).result(60)
    assert work.queue.submit("query", "a", lambda: 1).result(60) == 1


def test_work_that_is_cancelled_while_it_waits_never_begins(work: Work) -> None:
    work.submit("a", "a1")
    waiting = work.submit("a", "a2")
    assert waiting.cancel()
    work.end("a1")
    assert work.queue.submit("query", "a", lambda: 1).result(60) == 1
    assert work.begun == ["a1"]


def test_a_client_with_too_much_waiting_work_is_refused_and_others_are_not(
    work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queues, "MAX_WAITING_OF_CLIENT", 2)
    for number in range(3):
        work.submit("a", f"a{number}")
    with pytest.raises(Refused, match="of this client are waiting, the limit is 2") as caught:
        work.submit("a", "too many")
    assert caught.value.code is Code.RESOURCE_EXHAUSTED
    work.submit("b", "b1")
    work.wait_for("b1")


def test_cancelled_work_does_not_count_as_waiting(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queues, "MAX_WAITING_OF_CLIENT", 1)
    work.submit("a", "a1")
    work.submit("a", "a2").cancel()
    work.submit("a", "a3")


def test_threads_that_wait_for_a_client_are_limited(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queues, "MAX_BLOCKED_OF_CLIENT", 1)
    with work.queue.slot("query", "a"):
        with pytest.raises(Refused, match="Too many requests"), work.queue.slot("query", "a"):
            pass
        with work.queue.slot("query", "b"):
            pass
    with work.queue.slot("query", "a"):
        pass


def test_nothing_begins_after_closing(work: Work) -> None:
    work.end()
    work.queue.close()
    with pytest.raises(Refused, match="stops"):
        work.submit("a", "late")
