"""Bounds hold: on what is staged on disk, and on what is in memory on its way there."""

from __future__ import annotations

import asyncio

import pytest

from lode.ingest.core.limits import StagedBytes, Window
from lode.ingest.status import Code, Refused


def test_staged_bytes_are_refused_above_the_limit_and_welcome_again_below_it() -> None:
    staged = StagedBytes(100)
    staged.add(99)
    staged.reserve(1)
    with pytest.raises(
        Refused, match=r"100 bytes are staged .* this append has 1, the limit is 100"
    ) as refused:
        staged.reserve(1)
    assert refused.value.code is Code.RESOURCE_EXHAUSTED
    assert not refused.value.ends_call
    staged.add(-1)
    staged.reserve(1)
    assert staged.bytes == 100


async def entering(window: Window, size: int) -> asyncio.Task[None]:
    """A request that has had its chance to get in."""
    task = asyncio.create_task(window.enter(size))
    await breathe()
    return task


async def breathe() -> None:
    """Let everything that can run do so."""
    for _ in range(5):
        await asyncio.sleep(0)


def test_requests_wait_for_room_and_get_it_in_their_order() -> None:
    async def play() -> None:
        window = Window(100)
        await window.enter(60)
        await window.enter(40)
        first, second = await entering(window, 70), await entering(window, 10)
        window.leave(40)
        await breathe()
        assert not first.done()
        assert not second.done(), "a small request overtook a large one, which may so wait for ever"
        window.leave(60)
        await breathe()
        assert first.done()
        assert second.done()

    asyncio.run(play())


def test_a_newcomer_does_not_overtake_those_who_wait() -> None:
    async def play() -> None:
        window = Window(100)
        await window.enter(60)
        waiting = await entering(window, 50)
        newcomer = await entering(window, 10)
        assert not newcomer.done()
        window.leave(60)
        await asyncio.gather(waiting, newcomer)

    asyncio.run(play())


def test_a_request_larger_than_all_of_it_is_let_in_alone() -> None:
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


def test_who_stops_waiting_takes_no_room() -> None:
    async def play() -> None:
        window = Window(100)
        await window.enter(60)
        large, small = await entering(window, 100), await entering(window, 40)
        large.cancel()
        await breathe()
        assert small.done(), "it waited behind somebody who is not there any more"
        window.leave(40)
        window.leave(60)
        await window.enter(100)

    asyncio.run(play())


def test_who_is_cancelled_as_room_is_given_gives_it_back() -> None:
    async def play() -> None:
        window = Window(100)
        await window.enter(100)
        given, next_one = await entering(window, 100), await entering(window, 100)
        window.leave(100)
        await asyncio.sleep(0)
        # Before it wakes up: it has the room, and will never say that it leaves.
        given.cancel()
        with pytest.raises(asyncio.CancelledError):
            await given
        await asyncio.wait_for(next_one, 30)

    asyncio.run(play())


def test_room_given_back_by_another_thread_wakes_who_waits() -> None:
    async def play() -> None:
        window = Window(100)
        await window.enter(100)
        waiting = await entering(window, 100)
        await asyncio.to_thread(window.leave, 100)
        await asyncio.wait_for(waiting, 30)

    asyncio.run(play())


def test_room_given_back_while_nobody_waits_is_there_for_the_next() -> None:
    async def play() -> None:
        window = Window(100)
        await window.enter(100)
        await asyncio.to_thread(window.leave, 100)
        await asyncio.wait_for(window.enter(100), 30)

    asyncio.run(play())
