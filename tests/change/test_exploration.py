"""Every interleaving of two changes of one dataset, and walks of many, with crashes and lost answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lode.testing.explore import Report, Scenario, explore
from support.change.actors import (
    LAYOUTS,
    Operation,
    Serial,
    append,
    compact,
    delete,
    first,
    in_one_thread,
    merge,
    overwrite,
)

if TYPE_CHECKING:
    from lode.format.paths import Layout


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    in_one_thread(monkeypatch)


def scenario(layout: Layout, operations: dict[str, Operation], **options: Any) -> Scenario:
    actors = {name: each.actor(number, layout) for number, (name, each) in enumerate(operations.items(), 1)}
    return Scenario(actors=actors, initial=first(layout), **options)


def explored(layout: Layout, operations: dict[str, Operation], **options: Any) -> Report:
    return explore(scenario(layout, operations, **options), check=Serial(layout, operations))


OPERATIONS = {
    "append": append("a", 4),
    "overwrite": overwrite("a", 5),
    "delete": delete(1, 3),
    "merge": merge(1, 6),
    "compact": compact(),
}


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_no_operation_fails_because_of_a_compaction_and_no_compaction_fails(name: str, layout: str) -> None:
    report = explored(LAYOUTS[layout], {"c": compact(), "o": OPERATIONS[name]})
    assert report.count(lambda view: view.raised) == 0
