"""An operation is prepared again after a compaction, and refused after other changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import lode

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def counted(lake: Path) -> lode.Dataset:
    ds = lode.Dataset.create("counted", lake, schema={"id": "int64", "n": "int64"})
    for start in (0, 3):
        ds.write([{"id": id, "n": id} for id in range(start, start + 3)])
    return ds


def rows(ds: lode.Dataset) -> dict[int, int]:
    return {row["id"]: row["n"] for row in ds.scan().read_all().to_pylist()}


def orphans(ds: lode.Dataset) -> set[str]:
    """Data files that no snapshot names."""
    stored = {entry.path for entry in ds.store.list() if "/data/" in entry.path}
    return stored - {file.path for snapshot in ds.snapshots() for file in snapshot.files}


def test_rows_that_can_be_read_only_once_survive_a_compaction_of_what_they_replace(tmp_path: Path) -> None:
    ds = counted(tmp_path)

    def once() -> Iterator[dict[str, int]]:
        lode.Dataset("counted", tmp_path).compact()
        yield {"id": 2, "n": 20}

    done = ds.overwrite(once(), where="id > 1 AND id < 4")
    assert done.snapshot is not None
    assert done.snapshot.sequence == 5
    assert rows(ds) == {0: 0, 1: 1, 2: 20, 4: 4, 5: 5}
    assert orphans(ds) == set()


def test_rows_that_can_be_read_only_once_replace_what_others_have_written_if_they_are_to_be_redone(
    tmp_path: Path,
) -> None:
    ds = counted(tmp_path)

    def once() -> Iterator[dict[str, int]]:
        lode.Dataset("counted", tmp_path).write([{"id": 3, "n": 33}, {"id": 9, "n": 9}])
        yield {"id": 2, "n": 20}

    ds.overwrite(once(), where="id > 1 AND id < 4", on_conflict="redo")
    assert rows(ds) == {0: 0, 1: 1, 2: 20, 4: 4, 5: 5, 9: 9}
    assert orphans(ds) == set()


def test_a_compaction_does_not_hide_another_change_of_the_same_rows(tmp_path: Path) -> None:
    ds = counted(tmp_path)

    def once() -> Iterator[Any]:
        other = lode.Dataset("counted", tmp_path)
        other.compact()
        other.write([{"id": 3, "n": 33}])
        yield {"id": 2, "n": 20}

    with pytest.raises(lode.SnapshotConflictError, match='run it again, or with on_conflict="redo"'):
        ds.overwrite(once(), where="id > 1 AND id < 4")
    assert ds.count() == 7
    assert orphans(ds) == set()
