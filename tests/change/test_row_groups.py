"""Row groups in which nothing changes are copied, and the rows are those that remain."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import lode
from lode.codec.parquet import ParquetEncoder
from lode.errors import InvalidFormatError

if TYPE_CHECKING:
    from collections.abc import Callable

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
GROUP = 100
SCHEMA = {"id": "int64!", "kind": "string", "x": "float64", "at": "timestamp"}


@pytest.fixture(autouse=True)
def small_row_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Row groups of these files are worth copying."""
    monkeypatch.setattr("lode.change.row_groups.MIN_COPIED_ROWS", GROUP // 2)
    monkeypatch.setattr("lode.change.row_groups.MIN_FILE_BYTES", 1)


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rows of each row group that is copied."""
    found: list[int] = []
    real = ParquetEncoder.copy

    def copy(self: ParquetEncoder, group: Any) -> None:
        found.append(group.row_count)
        real(self, group)

    monkeypatch.setattr(ParquetEncoder, "copy", copy)
    return found


def records(first: int, count: int) -> list[dict[str, Any]]:
    return [
        {"id": id, "kind": f"k{id % 7}", "x": id / 2, "at": BEGIN + timedelta(seconds=id)}
        for id in range(first, first + count)
    ]


def made(folder: Path, *, rows: list[dict[str, Any]] | None = None, **options: Any) -> lode.Dataset:
    """A dataset with one file of ten row groups, by ids."""
    codec = lode.Parquet(SCHEMA, row_group_rows=GROUP)
    dataset = lode.Dataset.create("d", folder, codec=codec, store_options={"durable": False}, **options)
    dataset.write(records(0, 10 * GROUP) if rows is None else rows)
    return dataset


def ids(dataset: lode.Dataset) -> list[int]:
    found: list[Any] = dataset.scan().read_all().column("id").to_pylist()
    return found


def check(dataset: lode.Dataset) -> None:
    """The files are intact, and their statistics are those of their rows."""
    report = lode.verify(dataset)
    assert report.ok, report
    for file in dataset.plan().files:
        table = pq.read_table(dataset.plan().store.local_path(file.path))  # type: ignore[attr-defined]
        assert file.stats is not None
        assert file.stats.row_count == table.num_rows
        known = {column.name: column for column in file.stats.columns}
        ends: Any = pc.min_max(table.column("id"))
        assert (known["id"].min, known["id"].max) == (ends["min"].as_py(), ends["max"].as_py())


CHANGES: dict[str, Callable[[lode.Dataset], object]] = {
    "delete": lambda dataset: dataset.delete("id >= 450 AND id < 460"),
    "overwrite": lambda dataset: dataset.overwrite(records(455, 1), where="id >= 450 AND id < 460"),
    "merge": lambda dataset: dataset.merge(records(450, 10), on=["id"], when_matched="delete"),
    "merge by two keys": lambda dataset: dataset.merge(
        records(450, 10), on=["id", "kind"], when_matched="delete"
    ),
}


@pytest.mark.parametrize("how", CHANGES)
@pytest.mark.parametrize(
    "options", [{}, {"timestamp_column": "at", "checksum": "xxh3-128"}, {"sort_by": ["id"]}]
)
def test_only_the_row_group_with_matching_rows_is_decoded(
    tmp_path: Path, copied: list[int], how: str, options: dict[str, Any]
) -> None:
    dataset = made(tmp_path, **options)
    before = dataset.latest()
    CHANGES[how](dataset)
    assert copied == [GROUP] * 9
    again = [455] if how == "overwrite" else []
    assert sorted(ids(dataset)) == sorted([*range(450), *range(460, 1000), *again])
    check(dataset)
    after = dataset.latest()
    assert before is not None
    assert after is not None
    if "timestamp_column" in options:
        assert (after.manifest.min_timestamp, after.manifest.max_timestamp) == (
            before.manifest.min_timestamp,
            before.manifest.max_timestamp,
        )


def test_the_order_of_rows_stays(tmp_path: Path, copied: list[int]) -> None:
    dataset = made(tmp_path)
    dataset.delete("id IN (150, 350, 351, 990)")
    assert len(copied) == 7
    assert ids(dataset) == [id for id in range(1000) if id not in (150, 350, 351, 990)]


def test_a_merge_updates_rows_of_decoded_row_groups_only(tmp_path: Path, copied: list[int]) -> None:
    dataset = made(tmp_path)
    dataset.merge([{"id": 205, "x": -1.0}, {"id": 777, "x": -2.0}, {"id": 5000, "x": -3.0}], on=["id"])
    assert copied == [GROUP] * 8
    table = dataset.scan().read_all().sort_by("id")
    assert table.num_rows == 1001
    found = {row["id"]: row for row in table.to_pylist()}
    assert (found[205]["x"], found[205]["kind"], found[777]["x"]) == (-1.0, "k2", -2.0)
    assert (found[5000]["x"], found[5000]["kind"]) == (-3.0, None)
    check(dataset)


def test_compaction_copies_large_row_groups_and_joins_small_ones(tmp_path: Path, copied: list[int]) -> None:
    dataset = made(tmp_path, rows=records(0, 3 * GROUP))
    for first in range(300, 330, 10):
        dataset.write(records(first, 10))
    dataset.write(records(330, GROUP))
    dataset.compact()
    assert copied == [GROUP] * 4
    assert ids(dataset) == list(range(430))
    (path,) = dataset.plan().locations
    metadata = pq.ParquetFile(path).metadata
    assert [metadata.row_group(each).num_rows for each in range(5)] == [100, 100, 100, 30, 100]
    check(dataset)


def test_row_groups_that_have_become_small_are_put_together(tmp_path: Path, copied: list[int]) -> None:
    dataset = made(tmp_path)
    dataset.delete("kind != 'k0'")
    assert not copied
    (path,) = dataset.plan().locations
    assert pq.ParquetFile(path).num_row_groups == 2
    assert ids(dataset) == [id for id in range(1000) if id % 7 == 0]


def test_rows_with_nan_are_found_after_their_row_group_was_copied(tmp_path: Path, copied: list[int]) -> None:
    rows = records(0, 10 * GROUP)
    rows[50]["x"] = float("nan")
    dataset = made(tmp_path, rows=rows)
    dataset.delete("id = 999")
    assert len(copied) == 9
    (file,) = dataset.plan().files
    assert file.stats is not None
    known = {column.name: column for column in file.stats.columns}
    assert known["x"].min is None
    assert dataset.count(where="IS_NAN(x)") == 1
    dataset.delete("IS_NAN(x)")
    assert ids(dataset) == [id for id in range(999) if id != 50]


@pytest.mark.parametrize(
    "evolve",
    [
        {"rename": {"kind": "sort"}},
        {"drop": ["kind"]},
        {"add": {"more": "string"}},
        {"relax": ["id"]},
    ],
)
def test_files_with_other_columns_are_decoded(
    tmp_path: Path, copied: list[int], evolve: dict[str, Any]
) -> None:
    dataset = made(tmp_path)
    dataset.evolve(**evolve)
    dataset.delete("id = 5")
    assert not copied
    assert ids(dataset) == [id for id in range(1000) if id != 5]
    assert dataset.schema is not None
    assert dataset.schema.names == dataset.scan().read_all().schema.names
    dataset.delete("id = 999")
    assert copied == [GROUP] * 9
    assert dataset.count() == 998


def test_a_damaged_page_is_not_copied(tmp_path: Path) -> None:
    dataset = made(tmp_path)
    (location,) = dataset.plan().locations
    metadata = pq.ParquetFile(location).metadata
    column = metadata.row_group(8).column(2)
    place = column.data_page_offset + column.total_compressed_size - 3
    path = Path(location)
    path.chmod(0o644)
    data = bytearray(path.read_bytes())
    data[place] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(InvalidFormatError, match="checksum"):
        dataset.delete("id = 5")
    assert dataset.latest() is not None
    assert dataset.count() == 1000


def test_files_of_another_writer_are_decoded(tmp_path: Path, copied: list[int]) -> None:
    dataset = made(tmp_path)
    with dataset.transaction() as transaction:
        staged = transaction.stager.stage(records(2000, 3 * GROUP))
        (file,) = staged.files
        path = dataset.plan().store.local_path(file.path)  # type: ignore[attr-defined]
        data = path.read_bytes()
        path.chmod(0o644)
        path.write_bytes(data.replace(b"parquet-cpp-arrow version", b"parquet-xyz-other version"))
        transaction.add(staged)
        transaction.commit()
    dataset.delete("id = 2005")
    assert not copied
    assert dataset.count() == 1299
    table = pa.table({"id": ids(dataset)})
    assert table.column("id").to_pylist() == [id for id in (*range(1000), *range(2000, 2300)) if id != 2005]


def test_keys_are_looked_up_again_if_too_many_were_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, copied: list[int]
) -> None:
    monkeypatch.setattr("lode.change.keys._MAX_HITS_BYTES", 0)
    dataset = made(tmp_path)
    dataset.write(records(0, 10))
    dataset.merge([{"id": id, "x": -1.0} for id in (5, 205, 5000)], on=["id"])
    assert not copied
    found = dataset.scan(columns=["id", "kind", "x"], where="x < 0").read_all().sort_by("id").to_pylist()
    assert [(row["id"], row["kind"]) for row in found] == [(5, "k5"), (5, "k5"), (205, "k2"), (5000, None)]
    assert dataset.count() == 1011
