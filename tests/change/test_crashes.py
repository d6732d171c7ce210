"""A change that fails or dies at any call leaves the dataset as before or as after, and happens once."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

import lode
from lode.store import CountingStore, Fault, FaultStore, MemoryStore, SimulatedCrash
from support import SUPPORT
from support.change.changer import Row, expected, opened
from support.stores import contents

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SCHEMA = {"p": "string", "n": "int64"}

CHANGES: dict[str, Callable[[lode.Dataset, str], object]] = {
    "overwrite": lambda ds, key: ds.overwrite([{"p": "a", "n": 7}], idempotency_key=key),
    "overwrite where": lambda ds, key: ds.overwrite([{"p": "a", "n": 3}], where="n > 1", idempotency_key=key),
    "delete": lambda ds, key: ds.delete("n IN (1, 3)", idempotency_key=key),
    "merge": lambda ds, key: ds.merge(
        [{"p": "b", "n": 1}, {"p": "c", "n": 8}], on=["n"], idempotency_key=key
    ),
    "compact": lambda ds, key: ds.compact(idempotency_key=key),
    "restore": lambda ds, _: ds.restore(2),
    "expire": lambda ds, _: lode.expire(ds, keep=1, dry_run=False),
}


def built() -> dict[str, bytes]:
    store = MemoryStore()
    dataset = lode.Dataset("d", store, codec=lode.JSONL(SCHEMA), layout=lode.HiveLayout("p"))
    dataset.write([{"p": "a", "n": 1}, {"p": "a", "n": 2}])
    dataset.write([{"p": "a", "n": 3}])
    dataset.write([{"p": "b", "n": 4}])
    dataset.delete("n = 4")
    return contents(store)


def filled(objects: dict[str, bytes]) -> MemoryStore:
    store = MemoryStore()
    for path, data in objects.items():
        store.put(path, data)
    return store


def rows(store: lode.Store) -> list[tuple[str, int]]:
    dataset = lode.Dataset("d", store)
    dataset.settle()
    found = dataset.scan().read_all()
    assert dataset.count() == found.num_rows
    return sorted((row["p"], row["n"]) for row in found.to_pylist())


TROUBLES: dict[str, dict[str, Any]] = {
    "dies before": {"error": SimulatedCrash},
    "dies after": {"error": SimulatedCrash, "when": "after"},
    "fails": {"error": lode.StoreError},
    "loses the answer": {"error": lode.OutcomeUnknownError, "when": "after"},
}


@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize("name", CHANGES)
def test_a_change_that_is_stopped_at_any_call_is_there_wholly_or_not(name: str, trouble: str) -> None:
    change, objects = CHANGES[name], built()
    whole = filled(objects)
    before = rows(whole)
    change(lode.Dataset("d", whole), "k")
    after, history = rows(whole), len(lode.Dataset("d", whole).snapshots())
    for call in range(1, 200):
        store = filled(objects)
        calls = CountingStore(store)
        faulty = FaultStore(calls, Fault(nth=call, **TROUBLES[trouble]))
        with suppress(SimulatedCrash, lode.StoreError, lode.CommitError):
            change(lode.Dataset("d", faulty), "k")
            if calls.total < call:
                break
        assert rows(store) in (before, after), f"call {call}"
        assert lode.verify(lode.Dataset("d", store)).problems == (), f"call {call}"
        change(lode.Dataset("d", store), "k")
        assert rows(store) == after, f"call {call}"
        if name not in ("restore", "expire"):
            assert len(lode.Dataset("d", store).snapshots()) == history, f"call {call}"
    else:
        pytest.fail("the change makes more calls than were tried")


def test_a_process_that_is_killed_again_and_again_makes_every_change_once(tmp_path: Path) -> None:
    lake, done = tmp_path / "lake", -1
    for changes, patience in ((1, 0.0), (2, 0.01), (3, 0.05), (2, 0.02)):
        with subprocess.Popen(
            [sys.executable, str(SUPPORT / "change" / "changer.py"), str(lake), str(done + 1)],
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(changes)]
            time.sleep(patience)
            process.kill()
            lines += process.stdout.read().splitlines(keepends=True)
        done = max([done, *(int(line) for line in lines if line.endswith("\n"))])
        dataset = opened(str(lake))
        dataset.settle()
        found = sorted(tuple(row.values()) for row in dataset.scan().read_all().to_pylist())
        states: list[list[Row]] = []
        model: list[Row] = []
        for step in range(done + 2):
            model = expected(model, step)
            states.append(sorted(model))
        assert found in states[-2:]
        assert lode.verify(dataset).ok
    assert done > 5
