"""A store that ends the driver of a pipeline at one of its writes, and one that loses an answer."""

from __future__ import annotations

import copy
import shutil
from typing import TYPE_CHECKING, Any, TypeVar

import lode
from lode.store import FaultStore, SimulatedCrash
from lode.store.open import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pytest

T = TypeVar("T")

WRITES = ("put", "put_volatile", "compare_and_swap", "link", "delete", "commit")
# What the driver opens its stores with.
OPENS = "lode.spark.options.open_store"


class DriverDies(FaultStore):
    """Ends the driver before a write. Tasks of Spark get the store inside."""

    # The writes before it, in all stores; and where they are counted.
    writes_left = 0
    under = ""

    def around(self, method: str, path: str, call: Callable[[], T]) -> T:
        if method in WRITES and path.startswith(DriverDies.under) and not self.crashed:
            DriverDies.writes_left -= 1
            self.crashed = DriverDies.writes_left < 0
        return super().around(method, path, call)

    def __reduce__(self) -> Any:
        return copy.copy, (self.inner,)


class LosesAnswers(DriverDies):
    """Loses the answer to a swap of a pointer, which took effect. The driver lives on and cleans up."""

    swaps_left = 0

    def around(self, method: str, path: str, call: Callable[[], T]) -> T:
        result = call()
        if method == "compare_and_swap":
            LosesAnswers.swaps_left -= 1
            if LosesAnswers.swaps_left == -1:
                raise lode.OutcomeUnknownError(f"{method} {path!r}: no answer")
        return result


def dying(patch: pytest.MonkeyPatch, *, writes: int, under: str = "") -> None:
    """End the driver after some writes below a path."""
    DriverDies.writes_left, DriverDies.under = writes, under
    patch.setattr(OPENS, lambda path, **given: DriverDies(open_store(path, **given)))


def deaths(monkeypatch: pytest.MonkeyPatch, folder: Path, run: Callable[[], object]) -> Iterator[int]:
    """Let the driver die at one write after the other, each time on the folder as it is now.

    Yields the number of deaths after each of them, and ends when ``run`` survives.
    """
    kept = folder.with_name(f"{folder.name}-kept")
    shutil.copytree(folder, kept)
    died = 0
    while True:
        with monkeypatch.context() as patch:
            dying(patch, writes=died)
            try:
                run()
                return
            except SimulatedCrash:
                died += 1
        yield died
        shutil.rmtree(folder)
        shutil.copytree(kept, folder)


def losing(patch: pytest.MonkeyPatch, *, swaps: int) -> None:
    """Lose the answer to a swap after some others."""
    LosesAnswers.swaps_left = swaps
    patch.setattr(OPENS, lambda path, **given: LosesAnswers(open_store(path, **given)))
