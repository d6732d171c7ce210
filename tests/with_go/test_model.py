"""The model of Go, which the explorer runs, does what Lode for Go does on the same lakes."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

import lode
from lode.errors import SnapshotConflictError
from lode.store import LocalStore
from support import golang
from support.real_go import GoError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.real_go import GoProcess

POINTER = "datasets/events/latest"


def as_written(lake: Path, _: list[str]) -> None:
    """Leave the lake as it is."""


def without_pointer(lake: Path, _: list[str]) -> None:
    (lake / POINTER).unlink()


def at_an_older_one(lake: Path, ids: list[str]) -> None:
    (lake / POINTER).write_text(ids[0])


def at_a_missing_one(lake: Path, _: list[str]) -> None:
    (lake / POINTER).write_text("1794769330000000009")


def with_white_space(lake: Path, ids: list[str]) -> None:
    (lake / POINTER).write_text(f"{ids[-1]}\n")


def at_a_missing_one_with_white_space(lake: Path, _: list[str]) -> None:
    (lake / POINTER).write_text("1794769330000000009\n")


def closed(lake: Path, ids: list[str]) -> None:
    (lake / POINTER).write_text(f"{ids[-1]}~closed\n")


def empty(lake: Path, _: list[str]) -> None:
    shutil.rmtree(lake)
    lake.mkdir()


STATES = [
    as_written,
    without_pointer,
    at_an_older_one,
    at_a_missing_one,
    with_white_space,
    at_a_missing_one_with_white_space,
    closed,
    empty,
]


@pytest.fixture(params=STATES, ids=lambda state: state.__name__)
def lakes(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Path]:
    """Two lakes in the same state."""
    change: Callable[[Path, list[str]], None] = request.param
    dataset = lode.Dataset("events", tmp_path / "one", codec="jsonl")
    ids = [dataset.write([{"n": number}]).id for number in range(3)]
    change(tmp_path / "one", ids)
    shutil.copytree(tmp_path / "one", tmp_path / "other")
    return tmp_path / "one", tmp_path / "other"


def pointer(lake: Path) -> bytes | None:
    path = lake / POINTER
    return path.read_bytes() if path.exists() else None


def answer(call: Callable[[], str], refusal: str) -> str | None:
    """What Go answers; None if it refuses in this way."""
    try:
        return call()
    except GoError as error:
        if error.kind != refusal:
            raise
        return None


def test_the_model_finds_the_same_latest_snapshot_and_leaves_the_same_pointer(
    go: GoProcess, lakes: tuple[Path, Path]
) -> None:
    real, modelled = lakes
    assert golang.latest(LocalStore(modelled)) == answer(go.dataset(real).latest, "empty")
    assert pointer(modelled) == pointer(real)


def test_the_model_writes_after_the_same_parent_or_is_refused(
    go: GoProcess, lakes: tuple[Path, Path]
) -> None:
    real, modelled = lakes
    before = pointer(real)
    expected = answer(lambda: go.dataset(real).write([]), "conflict")
    if expected is None:
        with pytest.raises(SnapshotConflictError):
            golang.writer("1999999999999999999")(LocalStore(modelled))
        assert pointer(modelled) == pointer(real) == before
        return
    golang.writer(expected)(LocalStore(modelled))
    assert pointer(modelled) == pointer(real)
    assert manifest(modelled, expected) == manifest(real, expected)


def manifest(lake: Path, snapshot_id: str) -> dict[str, Any]:
    data = (lake / f"datasets/events/snapshots/{snapshot_id}/manifest.json").read_bytes()
    found: dict[str, Any] = json.loads(data)
    assert isinstance(found.pop("created_at"), str)
    return found


@pytest.mark.parametrize("keys", [(), ("k",)], ids=["default", "hive"])
def test_the_model_writes_the_same_objects(go: GoProcess, tmp_path: Path, keys: tuple[str, ...]) -> None:
    rows = [{"k": key, "n": n} for n, key in enumerate(("a/b", "é", None, "", True, 1.5, 1e21, 1234567.0, 3))]
    rows = [row for row in rows if row["k"] is not None or keys]
    written = go.dataset(tmp_path / "one", keys=keys).write(rows)
    golang.write(tmp_path / "other", written, rows, keys=keys)
    assert objects(tmp_path / "other") == objects(tmp_path / "one")


def objects(lake: Path) -> set[str]:
    return {str(path.relative_to(lake)) for path in lake.rglob("*") if path.is_file()}
