"""Groups of snapshots that one swap committed, made by the library in one thread and without waiting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lode
from lode.runtime import Runtime, one_by_one
from lode.store.wrappers import CountingStore
from lode.write import contention

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from lode.store.protocol import Store


class Far(CountingStore):
    """A store whose writers commit together, as on an object store. A request takes no time."""

    nearby = False


def always_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let writers wait for each other although nothing shows that there are many of them."""
    monkeypatch.setattr(contention, "MIN_REBASES", 0)
    monkeypatch.setattr(contention, "MAX_CROWD_AGE_SECONDS", 3600.0)


def runtime(meanwhile: Callable[[], object] = lambda: None) -> Runtime:
    """A runtime that calls ``meanwhile`` instead of its first sleep, and does not sleep."""
    pending = [meanwhile]

    def sleep(_: float) -> None:
        if pending:
            pending.pop()()

    return Runtime(sleep=sleep, each=one_by_one, each_small=one_by_one, background=lambda chore: chore())


def write_group(store: Store, name: str, size: int, **options: Any) -> list[lode.Snapshot]:
    """Write ``size`` rows to a dataset that has a snapshot, each by its own writer, with one swap.

    Each writer begins while the one before it waits. The last one leads. With more than three, a writer may
    choose a slot that the leader does not read.
    """
    assert size <= 3, "a larger group may be cut in two"
    found: list[lode.Snapshot] = []

    def write(number: int) -> None:
        meanwhile = (lambda: write(number + 1)) if number < size else (lambda: None)
        dataset = lode.Dataset(name, Far(store), runtime=runtime(meanwhile), **options)
        found.append(dataset.write([{"k": number}], on_conflict="append"))

    write(1)
    return sorted(found, key=lambda snapshot: snapshot.sequence or 0)
