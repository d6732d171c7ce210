"""The protocol of a dataset that is shared with Go, as a model: it holds, and every change of it does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from models.shared_pointer import Model, ViolationError

if TYPE_CHECKING:
    from models.shared_pointer import Mutant


@pytest.mark.parametrize("readers", [1, 2, 3])
def test_no_write_is_lost_beside_readers_of_go(readers: int) -> None:
    assert Model(go_readers=readers).explore() > 1000


@pytest.mark.parametrize("go_first", [True, False], ids=["smaller ids", "larger ids"])
def test_no_write_of_either_is_lost_beside_one_writer_of_go(go_first: bool) -> None:
    assert Model(go_writers=1, go_first=go_first).explore() > 1000


@pytest.mark.parametrize(("readers", "writers", "go_first"), [(1, 1, True), (1, 1, False), (0, 2, False)])
def test_no_write_of_python_is_lost_beside_any_program_of_go_while_ids_increase(
    readers: int, writers: int, go_first: bool
) -> None:
    model = Model(go_readers=readers, go_writers=writers, go_first=go_first, increasing=True)
    assert model.explore() > 1000


@pytest.mark.parametrize(("readers", "writers"), [(1, 1), (0, 2)])
def test_beside_several_programs_of_go_a_smaller_id_after_a_larger_one_can_be_lost(
    readers: int, writers: int
) -> None:
    """Go takes the largest id for the newest snapshot, which no protocol of ours can change."""
    with pytest.raises(ViolationError):
        Model(go_readers=readers, go_writers=writers).explore()


@pytest.mark.parametrize("mutant", ["plain", "reread", "padded", "eager"])
def test_a_reader_of_go_makes_any_other_protocol_lose_a_write(mutant: Mutant) -> None:
    with pytest.raises(ViolationError, match=r"acknowledged|can be listed"):
        Model(go_readers=1, mutant=mutant).explore()


def test_reading_the_pointer_again_is_not_enough_because_the_repair_of_go_may_come_later() -> None:
    with pytest.raises(ViolationError, match="1 was acknowledged"):
        Model(go_readers=1, mutant="reread").explore()


def test_overtaking_a_late_writer_of_go_without_a_trace_loses_its_write() -> None:
    with pytest.raises(ViolationError, match="Go's 11 was acknowledged"):
        Model(go_writers=1, mutant="overtake").explore()
