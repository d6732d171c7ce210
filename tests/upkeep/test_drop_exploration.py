"""Drops beside writers and creators, on walks with crashes, lost answers and late requests.

The actors are the library itself. After every step the dataset has all rows of the history before the drop or
none of them, every file that is visible exists, and every promise made to a writer is kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import lode
from lode.testing import scenario
from lode.testing.explore import Scenario
from lode.testing.walk import walks
from support.change.actors import FIRST, LAST, LAYOUTS, RECOVERY, Operation, append, first, opened

if TYPE_CHECKING:
    from lode.format.paths import Layout
    from lode.testing.actor import Actor
    from lode.testing.scenario import View
    from lode.testing.sim import SwapStore

OLD = {row[:2] for rows in FIRST for row in rows}
WRITERS = {"a1": ("a", 4), "a2": ("b", 5), "k": ("a", 6)}


def dropper(number: int, layout: Layout) -> Actor:
    def act(store: SwapStore) -> None:
        opened(store, number, layout).drop()

    return act


def rows(layout: Layout) -> Actor:
    def read(store: SwapStore) -> set[tuple[str, int]]:
        dataset = opened(store, 0, layout)
        if not dataset.exists or not dataset.snapshots():
            return set()
        found = dataset.scan().read_all().to_pylist()
        assert len(found) == dataset.count()
        assert len(list(dataset.history())) == len(dataset.snapshots())
        return {(row["p"], row["n"]) for row in found}

    return read


class Dropped:
    """What must be true of every state."""

    def __init__(self, layout: Layout) -> None:
        self._rows = rows(layout)

    def __call__(self, view: View) -> None:
        visible = view.ask(self._rows)
        was_dropped = any(path.endswith("-drop/manifest.json") for path in view.store)
        was_declared = any("-drop/" in path for path in view.store)
        old = visible & OLD
        assert old in (OLD, set()), f"only {old} of the first rows are visible"
        assert not (old and was_dropped), "a row of before the drop is visible after it"
        assert old or was_declared, "rows are gone without a drop"
        for name, row in WRITERS.items():
            if name in view.returned:
                assert row in visible or was_declared, f"{row} was acknowledged and is not there"
            if isinstance(view.raised.get(name), lode.DatasetDroppedError):
                assert row not in visible, f"{row} was refused and is there"
        if scenario.RECOVERY in view.returned:
            assert LAST[0][:2] in visible


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("troubles", [{}, {"crashes": 2, "unknown": 2, "delayed": True, "failures": 1}])
def test_a_drop_beside_writers_takes_all_or_nothing_and_keeps_every_promise(
    layout: str, troubles: dict[str, Any]
) -> None:
    made = LAYOUTS[layout]
    operations: dict[str, Operation] = {
        "a1": append(*WRITERS["a1"]),
        "a2": append(*WRITERS["a2"]),
        "k": append(*WRITERS["k"], key="k"),
    }
    actors = {name: each.actor(number, made, {}) for number, (name, each) in enumerate(operations.items(), 1)}
    actors["d1"] = dropper(10, made)
    actors["d2"] = dropper(11, made)
    recovery = append(*LAST[0][:2]).actor(RECOVERY, made, {})
    walks(
        Scenario(
            actors=actors,
            initial=first(made),
            recovery=recovery,
            max_calls=3000,
            raises=(lode.LodeError,),
            **troubles,
        ),
        range(8),
        check=Dropped(made),
    )
