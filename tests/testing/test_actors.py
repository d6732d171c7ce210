"""An actor is run from its start again and again, and that does no harm and cannot go wrong unseen."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from lode.errors import NotFoundError
from lode.testing.actor import NondeterministicActorError, Program, World
from lode.testing.explore import Scenario, explore
from lode.testing.sim import Answer

if TYPE_CHECKING:
    from lode.store.protocol import Store
    from lode.testing.explore import View


def test_an_actor_cannot_write_while_it_is_suspended() -> None:
    def cleans_up(store: Store) -> str:
        try:
            store.exists("first")
            store.exists("second")
        finally:
            store.put("cleaned", b"")
        return "done"

    report = explore(Scenario(actors={"a": cleans_up}))
    assert report.states == 4
    assert report.interleavings == 1
    assert report.endings[0].view.returned == {"a": "done"}


def test_an_actor_that_catches_everything_is_suspended_all_the_same() -> None:
    def greedy(store: Store) -> str:
        try:
            store.exists("first")
        except BaseException:
            store.put("harm", b"")
        try:
            store.exists("second")
        except BaseException:
            return "harm"
        return "done"

    def unharmed(view: View) -> bool:
        return "harm" not in view.store and view.returned.get("a") != "harm"

    report = explore(Scenario(actors={"a": greedy}, crashes=1), check=unharmed)
    assert report.calls == {"a": 2}
    assert {str(ending.view.actors["a"]) for ending in report.endings} == {"returned 'done'", "crashed"}


def test_a_suspended_upload_leaves_nothing() -> None:
    def uploads(store: Store) -> None:
        with store.open_writer("x") as writer:
            writer.write(b"half ")
            store.exists("other")
            writer.write(b"whole")
            writer.commit()

    report = explore(Scenario(actors={"a": uploads}), check=lambda view: view.store.get("x") != b"half ")
    assert dict(report.endings[0].view.store) == {"x": b"half whole"}
    assert report.calls == {"a": 2}


def test_a_reader_of_ranges_makes_a_call_for_each() -> None:
    def reads(store: Store) -> bytes:
        with store.open_reader("x") as reader:
            return reader.read_at(reader.size - 3, 3) + reader.read_at(0, 2)

    report = explore(Scenario(actors={"a": reads}, initial={"x": b"abcdef"}))
    assert report.endings[0].view.returned == {"a": b"defab"}
    assert report.calls == {"a": 3}


def test_each_sequence_of_answers_is_run_once() -> None:
    runs: list[int] = []

    def actor(store: Store) -> bool:
        runs.append(1)
        return store.exists("x") and store.exists("y")

    world = World({})
    program = Program(world, "a", actor)
    yes, no = world.answer(Answer(True)), world.answer(Answer(False))
    assert program.advance(Program.START, yes) == program.advance(Program.START, yes)
    assert program.advance(Program.START, yes) != program.advance(Program.START, no)
    assert len(runs) == 3


def test_positions_with_equal_results_are_one() -> None:
    def either(store: Store) -> str:
        store.exists("x")
        return "same"

    def write(store: Store) -> None:
        store.put("x", b"")

    report = explore(Scenario(actors={"a": either, "b": write}))
    # Neither ran, a ran, b ran, both ran: whichever was first does not matter at the end.
    assert report.states == 4


def test_an_error_is_raised_afresh_each_time() -> None:
    def chained(store: Store) -> list[int]:
        depths = []
        for _ in range(3):
            try:
                store.get("x")
            except NotFoundError as error:
                depth, trace = 0, error.__traceback__
                while trace is not None:
                    depth, trace = depth + 1, trace.tb_next
                depths.append(depth)
        return depths

    report = explore(Scenario(actors={"a": chained}))
    assert len(set(report.endings[0].view.returned["a"])) == 1


def test_an_actor_that_is_not_deterministic_is_named() -> None:
    ids = itertools.count()

    def random_path(store: Store) -> None:
        store.put(f"x/{next(ids)}", b"")
        store.exists("x")

    with pytest.raises(NondeterministicActorError, match=r"actor 'a': .*'x/0'.*'x/1'"):
        explore(Scenario(actors={"a": random_path}))


def test_an_actor_that_hides_its_nondeterminism_is_named_too() -> None:
    ids = itertools.count()

    def hides(store: Store) -> None:
        try:
            store.put(f"x/{next(ids)}", b"")
            store.exists("x")
        except BaseException:
            return

    with pytest.raises(NondeterministicActorError, match="actor 'a'"):
        explore(Scenario(actors={"a": hides}))


def test_an_actor_that_ends_early_the_second_time_is_named() -> None:
    runs = itertools.count()

    def forgetful(store: Store) -> None:
        if next(runs) == 0:
            store.exists("x")

    with pytest.raises(NondeterministicActorError, match=r"actor 'a': .* it ended after 0 calls"):
        explore(Scenario(actors={"a": forgetful}))


def test_an_actor_with_threads_is_refused() -> None:
    def threads(store: Store) -> bool:
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(store.exists, "x").result()

    with pytest.raises(NondeterministicActorError, match="another thread"):
        explore(Scenario(actors={"a": threads}))
