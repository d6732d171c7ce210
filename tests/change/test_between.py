"""What another writer commits while a change is being prepared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import lode
from lode.store.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable

SCHEMA = {"id": "int64", "p": "string", "n": "int32"}

EVOLUTIONS: dict[str, Callable[[lode.Dataset], object]] = {
    "renamed": lambda other: other.evolve(rename={"n": "m"}),
    "dropped": lambda other: other.evolve(drop=["n"]),
    "dropped and added again": lambda other: (other.evolve(drop=["n"]), other.evolve(add={"n": "string"})),
    "widened": lambda other: other.evolve(widen={"n": "int64"}),
    "added": lambda other: other.evolve(add={"m": "string"}),
}


def pair(**options: Any) -> tuple[lode.Dataset, lode.Dataset]:
    """The same dataset opened twice, with two files."""
    store = MemoryStore()
    dataset = lode.Dataset.create("d", store, schema=SCHEMA, codec="parquet", **options)
    dataset.write([{"id": 1, "p": "a", "n": 1}, {"id": 2, "p": "a", "n": 2}])
    dataset.write([{"id": 3, "p": "a", "n": 3}])
    return dataset, lode.Dataset("d", store)


def once(call: Callable[[], object]) -> Callable[[int, int | None], None]:
    """A progress callback that runs something the first time."""
    left = [call]

    def progress(_done: int, _total: int | None) -> None:
        if left:
            left.pop()()

    return progress


def rows(dataset: lode.Dataset) -> list[dict[str, Any]]:
    return sorted(dataset.scan().read_all().to_pylist(), key=lambda row: row["id"])


@pytest.mark.parametrize("how", EVOLUTIONS)
def test_a_compaction_does_not_fail_when_columns_change_meanwhile(how: str) -> None:
    dataset, other = pair()
    expected: list[Any] = []

    def evolve() -> None:
        EVOLUTIONS[how](other)
        expected.extend(rows(other))

    dataset.compact(progress=once(evolve))
    assert rows(dataset) == rows(other) == expected
    dataset.compact()
    assert rows(other) == expected
    assert len(other.plan().files) == 1


@pytest.mark.parametrize("how", EVOLUTIONS)
def test_a_merge_or_deletion_fits_the_changed_columns_or_changes_nothing(how: str) -> None:
    for operation in ("delete", "merge"):
        dataset, other = pair()
        expected: list[Any] = []

        def evolve(other: lode.Dataset = other, expected: list[Any] = expected) -> None:
            EVOLUTIONS[how](other)
            expected.extend(rows(other))

        try:
            if operation == "delete":
                dataset.delete("id = 1", progress=once(evolve))
            else:
                dataset.merge([{"id": 1, "p": "b", "n": 9}], on=["id"], progress=once(evolve))
        except lode.SchemaViolationError:
            assert how in ("renamed", "dropped and added again")
        else:
            if operation == "delete":
                expected.pop(0)
            else:
                expected[0] |= {
                    name: value for name, value in {"p": "b", "n": 9}.items() if name in expected[0]
                }
        assert rows(dataset) == rows(other) == expected
        assert lode.verify(other).ok


def test_a_merge_that_is_redone_fits_a_column_that_was_widened() -> None:
    dataset, other = pair()

    def widen() -> None:
        other.evolve(widen={"n": "int64"})
        other.write([{"id": 4, "p": "a", "n": 2**40}])

    dataset.merge([{"id": 1, "p": "a", "n": 9}], on=["id"], on_conflict="redo", progress=once(widen))
    assert [row["n"] for row in rows(other)] == [9, 2, 3, 2**40]


def test_a_compaction_keeps_rows_that_a_stricter_caller_would_not_write() -> None:
    dataset, _ = pair()
    dataset.write([{"id": None, "p": None, "n": None}])
    strict = lode.Dataset("d", dataset.store, codec=lode.Parquet({**SCHEMA, "id": "int64!"}))
    strict.compact()
    assert strict.count() == 4
    strict.delete("id = 1")
    assert strict.count() == 3


def test_an_overwrite_counts_what_it_removed_also_behind_others() -> None:
    dataset, other = pair(partition_by=["p"])
    lode.Dataset("d", other.store).write([{"id": 4, "p": "a", "n": 4}], on_conflict="append")
    change = dataset.overwrite([{"id": 5, "p": "a", "n": 5}], on_conflict="redo")
    assert (change.removed.rows, change.removed.files, change.rows) == (4, 3, -3)


def test_an_overwrite_names_columns_as_another_writer_has_renamed_them() -> None:
    dataset, other = pair()
    other.evolve(rename={"n": "m"})
    dataset.overwrite([{"id": 5, "p": "a", "m": 5}], everything=True, on_conflict="redo")
    assert rows(other) == [{"id": 5, "p": "a", "m": 5}]


def test_a_write_names_columns_as_another_writer_has_renamed_them() -> None:
    dataset, other = pair()
    other.evolve(rename={"n": "m"})
    dataset.write([{"id": 5, "p": "a", "m": 5}])
    assert other.count(where="m = 5") == 1


def test_a_write_that_learns_of_new_columns_still_meets_its_conflict() -> None:
    dataset, other = pair()
    other.evolve(rename={"n": "m"})
    other.write([{"id": 4, "p": "a", "m": 4}])
    with pytest.raises(lode.SnapshotConflictError):
        dataset.write([{"id": 5, "p": "a", "m": 5}])


def test_a_deletion_by_an_object_that_knows_older_columns() -> None:
    dataset, other = pair()
    other.evolve(rename={"n": "m"}, add={"k": "string"})
    assert dataset.delete("m = 1").rows == -1
    assert dataset.merge([{"id": 2, "k": "x"}], on=["id"]).rows == 0
    dataset.compact()
    assert rows(other) == [{"id": 2, "p": "a", "m": 2, "k": "x"}, {"id": 3, "p": "a", "m": 3, "k": None}]


def test_merged_records_keep_the_columns_that_they_do_not_have() -> None:
    dataset, _ = pair()
    dataset.merge([{"id": 1, "n": 7}, {"id": 9, "n": 9}], on=["id"])
    assert rows(dataset)[0] == {"id": 1, "p": "a", "n": 7}
    assert rows(dataset)[-1] == {"id": 9, "p": None, "n": 9}
    with pytest.raises(
        lode.SchemaViolationError, match="row 1: some rows have a column 'n' and others do not"
    ):
        dataset.merge([{"id": 1, "n": 7}, {"id": 9}], on=["id"])


def test_a_merge_in_which_every_row_matches_inserts_none() -> None:
    dataset, _ = pair()
    change = dataset.merge(pa.table({"id": [1, 2, 3], "n": pa.array([4, 5, 6], pa.int32())}), on=["id"])
    assert (change.rows, [row["n"] for row in rows(dataset)]) == (0, [4, 5, 6])


@pytest.mark.parametrize("on", [["k"], ["k", "n"]])
def test_rows_merge_by_a_dictionary_column(on: list[str]) -> None:
    kind = pa.dictionary(pa.int32(), pa.string())
    dataset = lode.Dataset("d", MemoryStore(), codec="parquet")
    dataset.write(pa.table({"k": pa.array(["a", "b"], kind), "n": [1, 1], "v": [1, 2]}))
    dataset.merge(pa.table({"k": pa.array(["b"], kind), "n": [1], "v": [7]}), on=on)
    found: list[Any] = dataset.scan().read_all().column("v").to_pylist()
    assert sorted(found) == [1, 7]


def test_careless_arguments_are_refused_in_a_sentence() -> None:
    dataset, _ = pair(partition_by=["p"])
    row = [{"id": 1, "p": "a", "n": 1}]
    calls: dict[str, Callable[[], object]] = {
        "everything is 'no'": lambda: dataset.overwrite(row, everything="no"),  # type: ignore[arg-type]
        "partitions is 7": lambda: dataset.overwrite(row, partitions=7),  # type: ignore[arg-type]
        "partitions is 'p=a'": lambda: dataset.overwrite(row, partitions="p=a"),
        "where is 7": lambda: dataset.compact(where=7),  # type: ignore[arg-type]
    }
    for message, call in calls.items():
        with pytest.raises(lode.InvalidOptionError, match=message):
            call()
    assert len(dataset.snapshots()) == 3


# Two commits of other writers, of which a change has to follow both.
def compaction(other: lode.Dataset) -> None:
    # Two files of its own, so that there is always something to put together.
    assert other.compact().snapshot is not None


OTHERS: dict[str, Callable[[lode.Dataset], object]] = {
    **EVOLUTIONS,
    "nothing": lambda _other: None,
    "appended": lambda other: other.write([{"id": 9, "p": "b"}], on_conflict="append"),
    "added with values": lambda other: (
        other.evolve(add={"m": "string"}),
        other.write([{"id": 9, "p": "b", "m": "new"}], on_conflict="append"),
    ),
}

CHANGES: dict[str, tuple[Callable[..., object], Callable[[list[dict[str, Any]]], list[dict[str, Any]]]]] = {
    "delete": (
        lambda ds, **options: ds.delete("id = 1", **options),
        lambda before: [row for row in before if row["id"] != 1],
    ),
    "merge": (
        lambda ds, **options: ds.merge([{"id": 1, "p": "c"}], on=["id"], **options),
        lambda before: [{**row, "p": "c"} if row["id"] == 1 else row for row in before],
    ),
    "overwrite": (
        lambda ds, **options: ds.overwrite([{"id": 1, "p": "c"}], where="id = 1", **options),
        lambda before: [
            {**dict.fromkeys(row), "id": 1, "p": "c"} if row["id"] == 1 else row for row in before
        ],
    ),
    "overwrite by a stream": (
        lambda ds, **options: ds.overwrite(iter([{"id": 1, "p": "c"}]), where="id = 1", **options),
        lambda before: [
            {**dict.fromkeys(row), "id": 1, "p": "c"} if row["id"] == 1 else row for row in before
        ],
    ),
    "overwrite with a new column": (
        lambda ds, **options: ds.overwrite(
            pa.table({"id": pa.array([1], pa.int64()), "p": ["c"], "fresh": ["new"]}),
            where="id = 1",
            evolve=True,
            **options,
        ),
        lambda before: [
            {**dict.fromkeys(row), "id": 1, "p": "c", "fresh": "new"}
            if row["id"] == 1
            else {**row, "fresh": None}
            for row in before
        ],
    ),
}


@pytest.mark.parametrize("compacted", ["before", "after"])
@pytest.mark.parametrize("redo", [False, True])
@pytest.mark.parametrize("also", OTHERS)
@pytest.mark.parametrize("operation", CHANGES)
def test_a_change_follows_a_compaction_and_another_commit(
    operation: str, also: str, redo: bool, compacted: str
) -> None:
    dataset, other = pair()
    change, effect = CHANGES[operation]
    expected: list[dict[str, Any]] = []

    def commits() -> None:
        steps = [compaction, OTHERS[also]]
        for step in steps if compacted == "before" else reversed(steps):
            step(other)
        expected.extend(rows(other))

    options = {"on_conflict": "redo" if redo else "raise"}
    try:
        change(dataset, progress=once(commits), **options)
    except lode.SnapshotConflictError:
        # Rows were added where the change may have had to look; only "redo" looks again.
        assert not redo
        assert also in ("appended", "added with values")
    except lode.SchemaViolationError:
        # The rows to write have a column of that name, and it is another one now.
        assert operation == "overwrite by a stream"
        assert also in ("renamed", "dropped and added again")
    else:
        expected = effect(expected)
    assert rows(lode.Dataset("d", dataset.store)) == expected
    assert lode.verify(other).ok
