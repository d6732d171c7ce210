"""The limits on staged bytes, and on the bytes of requests in memory."""

from __future__ import annotations

import asyncio

import pytest

from lode.ingest.core.limits import StagedBytes, Window
from lode.ingest.status import Code, Refused


def test_staged_bytes_are_refused_above_the_limit_and_accepted_below_it() -> None:
    staged = StagedBytes(100)
    staged.add(99)
    staged.reserve(1)
    with pytest.raises(
        Refused, match=r"100 bytes are staged .* this request has 1, the limit is 100"
    ) as refused:
        staged.reserve(1)
    assert refused.value.code is Code.RESOURCE_EXHAUSTED
    assert not refused.value.ends_call
    staged.add(-1)
    staged.reserve(1)
    assert staged.bytes == 100


async def entering(window: Window, size: int) -> asyncio.Task[None]:
    """A request that has tried to enter."""
    task = asyncio.create_task(window.enter(size))
    await breathe()
    return task


async def breathe() -> None:
    """Let all tasks run that are ready."""
    for _ in range(5):
        await asyncio.sleep(0)


def test_requests_wait_for_space_and_get_it_in_order() -> None:
    async def play() -> None:
        window = Window(100)
        await window.enter(60)
        await window.enter(40)
        first, second = await entering(window, 70), await entering(window, 10)
        window.leave(40)
        await breathe()
        assert not first.done()
        assert not second.done(), "a small request overtook a large one, which could then wait forever"
        window.leave(60)
        await breathe()
        assert first.done()
        assert second.done()

    asyncio.run(play())


def test_a_new_request_does_not_overtake_waiting_ones() -> None:
    async def play() -> None:
        window = Window(100)
        await window.enter(60)
        waiting = await entering(window, 50)
        newcomer = await entering(window, 10)
        assert not newcomer.done()
        window.leave(60)
        await asyncio.gather(waiting, newcomer)

    asyncio.run(play())


def test_a_request_larger_than_the_window_enters_alone() -> None:
    async def play() -> None:
        window = Window(100)
        await window.enter(1)
        large = await entering(window, 1000)
        assert not large.done()
        window.leave(1)
        await large
        after = await entering(window, 1)
        assert not after.done()
        window.leave(1000)
        await after

    asyncio.run(play())


def test_a_cancelled_waiter_takes_no_space() -> None:
    async def play() -> None:
        window = Window(100)
        await window.enter(60)
        large, small = await entering(window, 100), await entering(window, 40)
        large.cancel()
        await breathe()
        assert small.done(), "it waits for a request that was cancelled"
        window.leave(40)
        window.leave(60)
        await window.enter(100)

    asyncio.run(play())


def test_a_waiter_that_is_cancelled_after_it_got_space_returns_it() -> None:
    async def play() -> None:
        window = Window(100)
        await window.enter(100)
        given, next_one = await entering(window, 100), await entering(window, 100)
        window.leave(100)
        await asyncio.sleep(0)
        # Before it wakes up: it has the space, and will never call ``leave``.
        given.cancel()
        with pytest.raises(asyncio.CancelledError):
            await given
        await asyncio.wait_for(next_one, 120)

    asyncio.run(play())


def test_space_returned_by_another_thread_wakes_a_waiter() -> None:
    async def play() -> None:
        window = Window(100)
        await window.enter(100)
        waiting = await entering(window, 100)
        await asyncio.to_thread(window.leave, 100)
        await asyncio.wait_for(waiting, 120)

    asyncio.run(play())


def test_space_returned_without_a_waiter_is_free_for_the_next_request() -> None:
    async def play() -> None:
        window = Window(100)
        await window.enter(100)
        await asyncio.to_thread(window.leave, 100)
        await asyncio.wait_for(window.enter(100), 120)

    asyncio.run(play())
