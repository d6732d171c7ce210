"""Items that arrive during work are processed together, in order, and none is lost."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from lode.ingest.core.group import Group

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


class Gate:
    """Work that records its groups and waits for the test in each; the weight of an item is its length."""

    def __init__(self, pool: ThreadPoolExecutor, *, max_weight: int = 10) -> None:
        self.groups: list[list[str]] = []
        self.begun = threading.Semaphore(0)
        self.may_end = threading.Semaphore(0)
        self.group: Group[str] = Group(pool, self._work, weigh=len, max_weight=max_weight)

    def put(self, *items: str) -> None:
        for item in items:
            self.group.put(item)

    def begin(self) -> None:
        assert self.begun.acquire(timeout=120)

    def end(self, count: int = 1) -> None:
        self.may_end.release(count)

    def end_while_closing(self, pool: ThreadPoolExecutor) -> None:
        """Let two groups end after the pool has begun to shut down."""
        closing = threading.Thread(target=pool.shutdown)
        closing.start()
        self.end(2)
        closing.join(timeout=120)

    def _work(self, group: list[str]) -> None:
        self.groups.append(group)
        self.begun.release()
        assert self.may_end.acquire(timeout=120)
        if "bad" in group:
            raise ValueError("a bad item")


def test_a_single_item_is_processed_at_once(pool: ThreadPoolExecutor) -> None:
    gate = Gate(pool)
    gate.put("a")
    gate.begin()
    assert gate.groups == [["a"]]
    gate.end()


def test_items_that_arrive_meanwhile_share_the_next_group_in_order(pool: ThreadPoolExecutor) -> None:
    gate = Gate(pool)
    gate.put("a")
    gate.begin()
    gate.put("b", "c", "d")
    gate.end(2)
    gate.group.wait()
    assert gate.groups == [["a"], ["b", "c", "d"]]


def test_a_group_does_not_exceed_its_limit(pool: ThreadPoolExecutor) -> None:
    gate = Gate(pool, max_weight=5)
    gate.put("a")
    gate.begin()
    gate.put("bb", "ccc", "d", "eeee", "f")
    gate.end(10)
    gate.group.wait()
    assert gate.groups == [["a"], ["bb", "ccc"], ["d", "eeee"], ["f"]]


def test_an_item_over_the_limit_has_its_own_group(pool: ThreadPoolExecutor) -> None:
    gate = Gate(pool, max_weight=3)
    gate.put("a")
    gate.begin()
    gate.put("b", "too heavy", "c")
    gate.end(10)
    gate.group.wait()
    assert gate.groups == [["a"], ["b"], ["too heavy"], ["c"]]


def test_a_failing_group_does_not_stop_the_next_ones(
    pool: ThreadPoolExecutor, caplog: pytest.LogCaptureFixture
) -> None:
    gate = Gate(pool)
    with caplog.at_level(logging.ERROR, "lode.ingest"):
        gate.put("bad")
        gate.begin()
        gate.put("good")
        gate.end(2)
        gate.group.wait()
        gate.put("later")
        gate.end()
        gate.group.wait()
    assert gate.groups == [["bad"], ["good"], ["later"]]
    assert "failed without an answer" in caplog.text


def test_waiting_ends_when_all_items_are_done_and_at_once_if_there_are_none(pool: ThreadPoolExecutor) -> None:
    gate = Gate(pool)
    gate.group.wait()
    gate.put("a")
    gate.begin()
    waited = threading.Event()

    def wait() -> None:
        gate.group.wait()
        waited.set()

    waiting = threading.Thread(target=wait)
    waiting.start()
    gate.put("b")
    gate.end()
    gate.begin()
    assert not waited.is_set()
    gate.end()
    waiting.join(timeout=120)
    assert waited.is_set()


def test_groups_are_processed_one_at_a_time(pool: ThreadPoolExecutor) -> None:
    busy = threading.Lock()
    seen: list[int] = []

    def work(group: list[int]) -> None:
        assert busy.acquire(blocking=False), "two groups at once"
        seen.extend(group)
        busy.release()

    group: Group[int] = Group(pool, work, weigh=lambda _: 1, max_weight=7)

    def put(numbers: range) -> None:
        for number in numbers:
            group.put(number)

    putting = [threading.Thread(target=put, args=[part]) for part in (range(500), range(500, 1000))]
    for thread in putting:
        thread.start()
    for thread in putting:
        thread.join()
    group.wait()
    assert sorted(seen) == list(range(1000))
    for numbers in (range(500), range(500, 1000)):
        assert [number for number in seen if number in numbers] == list(numbers)


def test_a_queue_that_is_never_empty_shares_the_thread() -> None:
    with ThreadPoolExecutor(1) as pool:
        turns: list[str] = []
        done = threading.Event()

        def busy(_: list[str]) -> None:
            turns.append("busy")
            if not done.is_set():
                greedy.put("more")

        def quiet(_: list[str]) -> None:
            turns.append("quiet")
            done.set()

        greedy: Group[str] = Group(pool, busy, weigh=len, max_weight=1)
        other: Group[str] = Group(pool, quiet, weigh=len, max_weight=1)
        greedy.put("more")
        other.put("once")
        assert done.wait(timeout=120), "the busy queue kept the only thread"
        greedy.wait()
    assert turns.count("quiet") == 1


def test_items_in_the_queue_are_processed_when_the_pool_shuts_down() -> None:
    pool = ThreadPoolExecutor(1)
    gate = Gate(pool)
    gate.put("a")
    gate.begin()
    gate.put("b")
    gate.end_while_closing(pool)
    assert gate.groups == [["a"], ["b"]]


class TwoSteps(Gate):
    """The same with a step before the work, which records its groups too."""

    def __init__(self, pool: ThreadPoolExecutor, *, light: int = 0) -> None:
        super().__init__(pool)
        self.prepared: list[list[str]] = []
        self.has_prepared = threading.Semaphore(0)
        self.group = Group(pool, self._work, weigh=len, max_weight=10, prepare=self._prepare, light=light)

    def _prepare(self, group: list[str]) -> list[str]:
        self.prepared.append(group)
        self.has_prepared.release()
        return [item.upper() for item in group]


def test_the_next_group_is_prepared_during_the_work_on_one_that_is_not_heavier(
    pool: ThreadPoolExecutor,
) -> None:
    steps = TwoSteps(pool)
    steps.put("aa")
    steps.begin()
    assert steps.has_prepared.acquire(timeout=120)
    steps.put("b")
    assert steps.prepared == [["aa"]], "a lighter group waits for more"
    steps.put("c")
    assert steps.has_prepared.acquire(timeout=120)
    assert steps.prepared == [["aa"], ["b", "c"]]
    steps.put("d")
    assert steps.groups == [["AA"]], "the work is done one group at a time"
    steps.end(3)
    steps.group.wait()
    assert steps.groups == [["AA"], ["B", "C"], ["D"]]


def test_a_lighter_group_is_prepared_when_the_work_is_done(pool: ThreadPoolExecutor) -> None:
    steps = TwoSteps(pool)
    steps.put("aaa")
    steps.begin()
    steps.put("b")
    steps.end(2)
    steps.group.wait()
    assert steps.groups == [["AAA"], ["B"]]


def test_prepared_groups_are_worked_on_when_the_pool_shuts_down() -> None:
    pool = ThreadPoolExecutor(2)
    steps = TwoSteps(pool)
    steps.put("a")
    steps.begin()
    steps.put("b")
    steps.end_while_closing(pool)
    steps.group.wait()
    assert steps.groups == [["A"], ["B"]]


class Answering(Gate):
    """Work that expects the next items of those that it answers, and waits for them as long as it takes."""

    def __init__(self, pool: ThreadPoolExecutor, *, light: int = 10, gap: float = 120.0) -> None:
        super().__init__(pool)
        self.expects = True
        self.answered = threading.Semaphore(0)
        self.group = Group(pool, self._answer, weigh=len, max_weight=10, light=light, gap=lambda _: gap)

    def _answer(self, group: list[str]) -> None:
        self._work(group)
        if self.expects:
            self.group.expect(len(group))
        self.answered.release()

    def answer(self, *meanwhile: str) -> None:
        """Put items while the group in work is not answered, then answer it."""
        self.begin()
        self.put(*meanwhile)
        self.end()
        assert self.answered.acquire(timeout=120)

    def answer_last(self) -> None:
        self.expects = False
        self.answer()
        self.group.wait()


def test_a_light_group_begins_when_the_senders_of_the_last_one_are_back(pool: ThreadPoolExecutor) -> None:
    gate = Answering(pool)
    gate.put("a")
    gate.answer("b")
    gate.put("c")
    gate.answer()
    gate.put("d", "e")
    gate.answer("f")
    gate.put("g", "h")
    gate.answer_last()
    assert gate.groups == [["a"], ["b", "c"], ["d", "e"], ["f", "g", "h"]]


def test_a_group_does_not_wait_for_a_sender_that_is_gone(pool: ThreadPoolExecutor) -> None:
    gate = Answering(pool, gap=0.0)
    gate.put("a")
    gate.answer("b")
    gate.answer_last()
    assert gate.groups == [["a"], ["b"]]


def test_a_heavy_group_does_not_wait(pool: ThreadPoolExecutor) -> None:
    gate = Answering(pool, light=1)
    gate.put("a")
    gate.answer("b")
    gate.answer_last()
    assert gate.groups == [["a"], ["b"]]


def test_a_group_that_becomes_heavy_does_not_wait_for_the_rest(pool: ThreadPoolExecutor) -> None:
    gate = Answering(pool, light=3)
    gate.put("a")
    gate.answer("b", "c", "d")
    gate.answer("e")
    gate.put("ff")
    gate.answer_last()
    assert gate.groups == [["a"], ["b", "c", "d"], ["e", "ff"]]


def test_a_single_sender_is_not_waited_for(pool: ThreadPoolExecutor) -> None:
    gate = Answering(pool)
    gate.put("a")
    gate.answer()
    gate.put("b")
    gate.answer()
    gate.put("c")
    gate.answer_last()
    assert gate.groups == [["a"], ["b"], ["c"]]


def test_a_light_group_is_not_prepared_ahead(pool: ThreadPoolExecutor) -> None:
    steps = TwoSteps(pool, light=3)
    steps.put("a")
    steps.begin()
    steps.put("b")
    assert steps.prepared == [["a"]]
    steps.put("cc")
    assert steps.has_prepared.acquire(timeout=120)
    assert steps.has_prepared.acquire(timeout=120)
    assert steps.prepared == [["a"], ["b", "cc"]]
    steps.end(2)
    steps.group.wait()
