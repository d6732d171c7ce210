"""Whatever is damaged in a lake, ``verify`` returns and says what is wrong."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import lode
from lode.cli.app import main
from lode.runtime import REAL
from lode.store.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

Target = Any
# A clock two minutes ahead: every writer of a test has long ended then.
LATER = replace(REAL, now_ns=lambda: REAL.now_ns() + 120 * 10**9)


def dataset_of(**options: Any) -> Callable[[MemoryStore], Target]:
    def make(store: MemoryStore) -> Target:
        dataset = lode.Dataset.create(
            "d", store, schema={"p": "string!", "n": "int64"}, checksum="sha256", **options
        )
        for number in range(18):
            dataset.write([{"p": "a", "n": number}], idempotency_key=f"job {number}")
        dataset.tag("first", 3)
        dataset.delete("n = 4", idempotency_key="gone")
        dataset.compact()
        dataset.write([{"p": "b", "n": 99}], idempotency_key="last")
        return dataset

    return make


def volume(store: MemoryStore) -> Target:
    made = lode.Volume("v", store, 1000, checksum="md5")
    for start in range(0, 300, 100):
        made.commit([made.stage_write_at(start, bytes(100))])
    made.stage_write_at(500, bytes(10))
    lode.sweep(made, older_than=timedelta(0), dry_run=False)
    made.commit([made.stage_write_at(600, bytes(10))])
    return made


LAKES: dict[str, Callable[[MemoryStore], Target]] = {
    "default": dataset_of(codec="jsonl"),
    "hive": dataset_of(partition_by=["p"], codec="jsonl"),
    "parquet": dataset_of(),
    "volume": volume,
}


def damaged(data: bytes) -> Iterator[tuple[str, bytes | None]]:
    """What may become of an object; None: it is deleted."""
    yield "deleted", None
    yield "empty", b""
    yield "garbage", b"\xff\x00garbage" * 3
    yield "another JSON", b'{"a": [1, 2]}'
    yield "JSON of another kind", b"[1]"
    yield "truncated", data[: len(data) // 2]
    yield "without its end", data[:-1]
    for part in (0, 1, 2, 3):
        at = len(data) * part // 4
        yield f"bit {at}", data[:at] + bytes([data[at] ^ (1 << (at % 7))]) + data[at + 1 :]


def replaced(store: MemoryStore, path: str, data: bytes | None) -> None:
    if store.exists(path):
        store.delete(path)
    if data is not None:
        store.put(path, data)


def opened(kind: str, store: MemoryStore) -> Target:
    return lode.Volume("v", store, 1000) if kind == "volume" else lode.Dataset("d", store)


def matters(path: str, how: str) -> bool:
    """Whether this damage must be reported.

    Not needed once their manifests are there: intents, which a power cut may tear. Derived, and read by
    nobody if they are damaged: history segments and state checkpoints. A deleted tag leaves no trace.
    What a key says is checked with what else is derived.
    """
    if path.endswith("/intent.json") or "/history/" in path or "/state/" in path:
        return False
    return how == "deleted" if "/keys/" in path else not ("/tags/" in path and how == "deleted")


@pytest.mark.parametrize("kind", LAKES)
def test_every_damage_that_matters_is_reported_and_none_is_raised(kind: str) -> None:
    store = MemoryStore()
    target = LAKES[kind](store)
    assert lode.verify(target).ok
    for path in [entry.path for entry in store.list()]:
        whole = store.get(path)
        for how, data in damaged(whole):
            replaced(store, path, data)
            found = lode.verify(opened(kind, store), runtime=LATER)
            assert not found.ok or not matters(path, how), (path, how)
            if not matters(path, how):
                assert all(path in f"{problem.path} {problem.message}" for problem in found.problems)
        replaced(store, path, whole)
    assert lode.verify(opened(kind, store), runtime=LATER).ok


@pytest.mark.parametrize("kind", ["default", "volume"])
def test_the_command_reports_damage_with_its_exit_code(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    memory = MemoryStore()
    LAKES[kind](memory)
    store = lode.open_store(tmp_path)
    for entry in memory.list():
        store.put(entry.path, memory.get(entry.path))
    name = ["v", "--volume"] if kind == "volume" else ["d"]
    run = ["verify", *name, "--root", str(tmp_path), "--json"]
    assert main(run) == 0
    capsys.readouterr()
    for path in [entry.path for entry in store.list() if matters(entry.path, "garbage")]:
        whole = store.get(path)
        store.delete(path)
        store.put(path, b"\xff\x00garbage")
        assert main(run) == 5, path
        assert json.loads(capsys.readouterr().out)["ok"] is False
        store.delete(path)
        store.put(path, whole)


def test_a_deleted_head_is_reported_once_its_writer_must_be_done() -> None:
    store = MemoryStore()
    dataset = LAKES["default"](store)
    store.delete(dataset.chain.paths.manifest(dataset.latest().id))
    assert not [each for each in lode.verify(dataset).problems if each.kind == "pointer"]
    (problem,) = [each for each in lode.verify(dataset, runtime=LATER).problems if each.kind == "pointer"]
    assert "no manifest" in problem.message
    lode.Dataset("d", store).settle()
    assert lode.verify(dataset, runtime=LATER).ok


def test_a_key_that_names_nothing_is_reported() -> None:
    store = MemoryStore()
    dataset = LAKES["default"](store)
    for content in (
        b'{"writer":"","key":"x","snapshot_id":"1-gone"}',
        b"{}",
        b"",
        b"[1]",
        b'{"snapshot_id":3}',
    ):
        path = dataset.chain.paths.key("", "x")
        replaced(store, path, content)
        assert [(each.kind, each.path) for each in lode.verify(dataset).problems] == [("key", path)]


def test_snapshots_of_a_clock_ahead_are_reported_and_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    store = MemoryStore()
    lode.Dataset("d", store, runtime=LATER).write(b"ahead")
    assert not [record for record in caplog.records if record.levelname == "WARNING"]
    dataset = lode.Dataset("d", store)
    dataset.write(b"now")
    assert "one of the two clocks is wrong" in caplog.text
    (problem,) = lode.verify(dataset).problems
    assert (problem.kind, "as 2 in all" in problem.message) == ("time", True)
    assert lode.verify(dataset, runtime=LATER).ok


def test_a_dataset_or_volume_that_does_not_exist_is_not_verified() -> None:
    store = MemoryStore()
    for missing in (lode.Dataset("d", store), lode.Volume("v", store, 10)):
        with pytest.raises(lode.NoSnapshotsError, match="does not exist"):
            lode.verify(missing)
