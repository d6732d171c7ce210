"""The probe that tells whether a store is safe."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lode.errors import OutcomeUnknownError, PermissionDeniedError, StoreError
from lode.store import Fault, FaultStore, LocalStore, MemoryStore
from lode.upkeep.doctor import diagnose

if TYPE_CHECKING:
    from pathlib import Path

    from typing_extensions import Buffer


class Replacing(MemoryStore):
    """A store whose puts replace, as a server does that ignores the condition."""

    def put(self, path: str, data: Buffer) -> None:
        self.delete(path)
        super().put(path, data)


class Gullible(MemoryStore):
    """A store whose swaps compare nothing."""

    def compare_and_swap(self, path: str, expected: bytes | None, replacement: bytes) -> bool:
        self.delete(path)
        return super().compare_and_swap(path, None, replacement)


def test_a_store_that_keeps_its_promises_is_healthy(tmp_path: Path) -> None:
    for store in (MemoryStore(), LocalStore(tmp_path, durable=False)):
        diagnosis = diagnose(store)
        assert diagnosis.healthy, str(diagnosis)
        assert "safe for concurrent writers" in str(diagnosis)


def test_puts_that_replace_are_found() -> None:
    diagnosis = diagnose(Replacing())
    assert not diagnosis.healthy
    assert "BROKEN: put never replaces an object (a second put was accepted)" in str(diagnosis)


def test_swaps_that_do_not_compare_are_found() -> None:
    broken = [finding.promise for finding in diagnose(Gullible()).findings if not finding.kept]
    assert broken == ["a pointer is swapped only from what it is", "of racing swaps exactly one wins"]


def test_a_store_that_cannot_be_listed_is_unreachable_and_not_unsafe() -> None:
    store = FaultStore(MemoryStore(), Fault("list", times=None, error=StoreError("no listing today")))
    diagnosis = diagnose(store)
    assert not diagnosis.healthy
    assert str(diagnosis) == f"{store.url}: cannot be reached (no listing today)"


def test_a_store_that_may_not_be_written_is_unreachable_and_not_unsafe() -> None:
    store = FaultStore(MemoryStore(), Fault("put", times=None, error=PermissionDeniedError("read only")))
    assert diagnose(store).unreachable == "read only"


@pytest.mark.parametrize(
    "error", [StoreError("response error, status code: 400"), OutcomeUnknownError("sent and not answered")]
)
def test_a_store_that_turns_conditional_writes_down_is_unsafe_and_not_unreachable(error: StoreError) -> None:
    diagnosis = diagnose(FaultStore(MemoryStore(), Fault("put", times=None, error=error)))
    assert (diagnosis.unreachable, diagnosis.healthy) == (None, False)
    assert str(error) in str(diagnosis)


@pytest.mark.parametrize("kind", [MemoryStore, Replacing, Gullible])
def test_nothing_is_left_behind(kind: type[MemoryStore]) -> None:
    store = kind()
    store.put("mine", b"1")
    diagnose(store)
    assert [info.path for info in store.list()] == ["mine"]
