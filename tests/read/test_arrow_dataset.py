"""A dataset for other query engines: what they read, what they leave closed, and what is refused."""

from __future__ import annotations

import os
import pickle
import sys
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pytest

import lode
from lode.store import CountingStore, LocalStore, MemoryStore

if TYPE_CHECKING:
    from pathlib import Path

DAYS = ("mon", "tue", "wed")
SCHEMA = {"day": "string!", "n": "int64", "text": "string"}


def visits(store: lode.Store, *, by_day: bool = True) -> lode.Dataset:
    """Three files of ten rows each: n is 0-9, 10-19 and 20-29."""
    dataset = lode.Dataset.create("visits", store, schema=SCHEMA, partition_by=["day"] if by_day else [])
    for number, day in enumerate(DAYS):
        dataset.write(
            [{"day": day, "n": n, "text": f"{n}" * 50} for n in range(number * 10, number * 10 + 10)]
        )
    return dataset


def reset(dataset: lode.Dataset) -> CountingStore:
    assert isinstance(dataset.store, CountingStore)
    dataset.store.reset()
    return dataset.store


def touched(store: CountingStore) -> set[str]:
    """The data files that any call was about."""
    return {path for _, path in store.events if "/data/" in path}


def keep_only(dataset: lode.Dataset, kept: int) -> None:
    """Delete every data file but one: a reader that opens another one fails."""
    for number, path in enumerate(dataset.plan().paths):
        if number != kept:
            dataset.store.delete(path)


def test_it_reads_nothing_but_manifests_until_it_is_scanned(store: CountingStore) -> None:
    dataset = visits(store)
    counted = reset(dataset)
    found = dataset.dataset()
    assert isinstance(found, pads.Dataset)
    assert found.schema == dataset.schema
    assert touched(counted) == set()


def test_it_can_be_scanned_many_times(store: CountingStore) -> None:
    found = visits(store).dataset()
    for _ in range(2):
        assert found.to_table().sort_by("n")["n"].to_pylist() == list(range(30))
        assert found.count_rows() == 30


ENGINES: dict[str, Any] = {
    "DuckDB": lambda found: (
        duckdb.from_arrow(found).filter("day = 'tue' AND n >= 15").aggregate("sum(n)").fetchall()[0][0]
    ),
    "polars": lambda found: (
        pl.scan_pyarrow_dataset(found)
        .filter((pl.col("day") == "tue") & (pl.col("n") >= 15))
        .select(pl.col("n").sum())
        .collect()
        .item()
    ),
    "pandas": lambda found: int(
        found.to_table(columns=["n"], filter=(pc.field("day") == "tue") & (pc.field("n") >= 15))
        .to_pandas()["n"]
        .sum()
    ),
}
EVERY_ENGINE = pytest.mark.parametrize("engine", ENGINES)


@EVERY_ENGINE
@pytest.mark.parametrize("by_day", [True, False], ids=["by partition", "by statistics"])
def test_an_engine_opens_only_files_that_can_match(store: CountingStore, engine: str, by_day: bool) -> None:
    dataset = visits(store, by_day=by_day)
    found = dataset.dataset()
    keep_only(dataset, 1)
    counted = reset(dataset)
    assert ENGINES[engine](found) == sum(range(15, 20))
    assert touched(counted) == {dataset.plan().paths[1]}


def test_an_engine_reads_only_the_columns_that_it_needs() -> None:
    store = CountingStore(MemoryStore())
    dataset = lode.Dataset("wide", store, codec="parquet")
    dataset.write(pa.table({"n": range(20_000), "noise": [os.urandom(100).hex() for _ in range(20_000)]}))
    found = dataset.dataset()
    size = dataset.plan().size_bytes
    counted = reset(dataset)
    assert duckdb.from_arrow(found).aggregate("sum(n)").fetchall() == [(sum(range(20_000)),)]
    assert 0 < counted.bytes_out < size / 4


@EVERY_ENGINE
def test_where_holds_together_with_the_filter_of_the_engine(store: CountingStore, engine: str) -> None:
    dataset = visits(store)
    found = dataset.dataset(where="n < 18")
    assert found.count_rows() == 18
    assert ENGINES[engine](found) == sum(range(15, 18))
    assert ENGINES[engine](dataset.dataset(where=pc.field("n") < 18)) == sum(range(15, 18))


def test_where_leaves_out_files_at_once(store: CountingStore) -> None:
    dataset = visits(store)
    keep_only(dataset, 2)
    assert dataset.dataset(where="day = 'wed'").to_table(columns=["n"])["n"].to_pylist() == list(
        range(20, 30)
    )


def test_as_of_has_the_rows_and_columns_of_that_snapshot(store: CountingStore) -> None:
    dataset = visits(store)
    then = dataset.latest()
    dataset.evolve(rename={"text": "words"})
    dataset.write([{"day": "thu", "n": 30, "words": "x"}])
    assert dataset.dataset(as_of=then).to_table().num_rows == 30
    assert dataset.dataset(as_of=then).schema.names == ["day", "n", "text"]
    assert dataset.dataset(as_of=2).count_rows() == 10


def test_added_dropped_relaxed_and_widened_columns_are_read_from_older_files(store: CountingStore) -> None:
    dataset = lode.Dataset.create("d", store, schema={"a": "int32!", "b": "string", "c": "float32"})
    dataset.write([{"a": 1, "b": "x", "c": 0.5}])
    dataset.evolve(add={"d": "int64"}, widen={"a": "int64", "c": "float64"}, relax=["a"], drop=["b"])
    dataset.write([{"a": 1 << 40, "c": 0.25, "d": 7}, {"a": None, "c": 1.5, "d": 8}])
    found = dataset.dataset()
    expected = [
        {"a": 1, "c": 0.5, "d": None},
        {"a": 1 << 40, "c": 0.25, "d": 7},
        {"a": None, "c": 1.5, "d": 8},
    ]
    assert found.schema == dataset.schema
    assert found.to_table().to_pylist() == dataset.scan().read_all().to_pylist() == expected
    assert duckdb.from_arrow(found).filter("a > 5").fetchall() == [(1 << 40, 0.25, 7)]


def test_a_renamed_column_is_refused_with_the_remedy(store: CountingStore) -> None:
    dataset = visits(store)
    dataset.evolve(rename={"text": "words"})
    with pytest.raises(lode.InvalidOptionError, match=r"'words' of dataset 'visits' is called 'text'.*scan"):
        dataset.dataset()
    assert dataset.scan(columns=["words"]).read_all().num_rows == 30


def test_a_name_that_was_used_before_is_refused_too(store: CountingStore) -> None:
    dataset = visits(store)
    dataset.evolve(drop=["text"])
    assert dataset.dataset().schema.names == ["day", "n"]
    dataset.evolve(add={"text": "int64"})
    with pytest.raises(
        lode.InvalidOptionError, match="'text' of dataset 'visits' is another column in older"
    ):
        dataset.dataset()


def test_a_rename_matters_only_for_files_that_can_match(store: CountingStore) -> None:
    dataset = visits(store)
    dataset.evolve(rename={"text": "words"})
    dataset.write([{"day": "thu", "n": 30, "words": "x"}])
    assert dataset.dataset(where="day = 'thu'").to_table()["words"].to_pylist() == ["x"]


@pytest.mark.parametrize(
    ("options", "stored"),
    [
        ({"codec": "jsonl"}, "stored as jsonl, and"),
        ({"codec": "arrow"}, "stored as arrow, and"),
        ({"codec": "parquet", "compressor": "zstd"}, "stored as parquet inside zstd, and"),
    ],
)
def test_other_files_are_refused_with_the_remedy(store: CountingStore, options: Any, stored: str) -> None:
    dataset = lode.Dataset("d", store, **options)
    dataset.write(pa.table({"n": [1]}))
    with pytest.raises(lode.InvalidOptionError, match=f"{stored}.*use scan"):
        dataset.dataset()
    assert pa.table(dataset).to_pylist() == [{"n": 1}]


def test_blobs_have_no_rows(store: CountingStore) -> None:
    dataset = lode.Dataset("d", store)
    dataset.write(b"x")
    for use in (dataset.dataset, dataset.to_polars, lambda: pa.table(dataset)):
        with pytest.raises(lode.InvalidOptionError, match=r"holds blobs.*use read\(snapshot\)"):
            use()


def test_a_dataset_without_snapshots_is_missing(store: CountingStore) -> None:
    dataset = lode.Dataset("d", store)
    for use in (dataset.dataset, dataset.to_polars, lambda: pa.table(dataset)):
        with pytest.raises(lode.NoSnapshotsError):
            use()


def test_a_dataset_without_rows_has_its_columns(store: CountingStore) -> None:
    dataset = lode.Dataset.create("d", store, schema=SCHEMA)
    assert dataset.schema is not None
    assert dataset.dataset().to_table().equals(dataset.schema.empty_table())
    assert duckdb.from_arrow(dataset.dataset()).fetchall() == []
    assert dataset.to_polars().schema == pl.Schema({"day": pl.String, "n": pl.Int64, "text": pl.String})
    assert pa.table(dataset).equals(dataset.schema.empty_table())


@pytest.mark.parametrize("where", ["nothing = 1", pc.field("nothing") == 1, 5])
def test_a_condition_that_does_not_fit_is_refused(store: CountingStore, where: Any) -> None:
    with pytest.raises(lode.InvalidOptionError):
        visits(store).dataset(where=where)


def test_a_condition_that_may_be_true_of_nan_is_refused(store: CountingStore) -> None:
    dataset = lode.Dataset("d", store, codec="parquet")
    dataset.write(pa.table({"x": [1.0, float("nan")]}))
    with pytest.raises(lode.InvalidOptionError, match="such as NaN"):
        dataset.dataset(where=pc.field("x") != 1.0)
    assert dataset.count(where=pc.field("x") != 1.0) == 1


def test_it_pickles(tmp_path: Path) -> None:
    dataset = visits(LocalStore(tmp_path, durable=False))
    found = pickle.loads(pickle.dumps(dataset.dataset()))
    keep_only(dataset, 0)
    assert found.to_table(filter=pc.field("n") < 5).num_rows == 5
    damaged = tmp_path / dataset.plan().paths[0]
    damaged.write_bytes(damaged.read_bytes() + b"x")
    with pytest.raises(lode.InvalidFormatError, match="its manifest says"):
        found.to_table(filter=pc.field("n") < 5)


@pytest.mark.parametrize("damage", ["longer", "link"])
def test_a_file_that_was_changed_is_refused_when_it_is_opened(tmp_path: Path, damage: str) -> None:
    dataset = visits(LocalStore(tmp_path, durable=False))
    found = dataset.dataset()
    file = tmp_path / dataset.plan().paths[1]
    if damage == "longer":
        file.write_bytes(file.read_bytes() + b"x")
    else:
        file.rename(tmp_path / "elsewhere")
        file.symlink_to(tmp_path / "elsewhere")
    assert found.to_table(filter=pc.field("day") == "mon").num_rows == 10
    with pytest.raises(lode.LodeError, match=r"data/data\.parquet"):
        found.to_table()


def test_readers_of_other_engines_end_although_files_are_opened_in_python(tmp_path: Path) -> None:
    """The ``to_reader`` of pyarrow keeps the interpreter's lock meanwhile, which can be a deadlock."""
    dataset = visits(LocalStore(tmp_path, durable=False))
    for _ in range(30):
        assert dataset.dataset().scanner().to_reader().read_all().num_rows == 30
    (tmp_path / dataset.plan().paths[1]).write_bytes(b"x")
    for _ in range(30):
        with pytest.raises(lode.LodeError, match=r"data/data\.parquet has 1 bytes"):
            dataset.dataset().scanner().to_reader().read_all()


def test_a_plan_is_a_dataset_too(store: CountingStore) -> None:
    dataset = visits(store)
    assert dataset.plan(since=2).dataset().count_rows() == 20
    assert dataset.plan_snapshot(3).dataset(where="n < 15").count_rows() == 5


@pytest.mark.parametrize("codec", ["jsonl", "parquet", "arrow"])
def test_datasets_and_plans_are_arrow_streams(store: CountingStore, codec: str) -> None:
    dataset = lode.Dataset("d", store, codec=codec)
    for number in range(3):
        dataset.write(pa.table({"n": [number], "text": [f"{number}"]}))
    expected = [{"n": number, "text": f"{number}"} for number in range(3)]
    for source in (dataset, dataset.plan()):
        assert pa.table(source).to_pylist() == expected
        assert pa.RecordBatchReader.from_stream(source).read_all().to_pylist() == expected
        assert pl.DataFrame(source).to_dicts() == expected
        assert duckdb.execute("SELECT sum(n) FROM source").fetchall() == [(3,)]
    copy = lode.Dataset("copy", store, codec="parquet")
    copy.write(dataset)
    assert copy.scan().read_all().to_pylist() == expected


def test_a_polars_frame_has_the_rows_of_the_same_scan(store: CountingStore) -> None:
    dataset = visits(store)
    frame = dataset.to_polars(as_of=3, since=2, columns=["n", "day"], where="n > 12", limit=4)
    assert isinstance(frame, pl.DataFrame)
    assert frame.to_dicts() == [{"n": n, "day": "tue"} for n in range(13, 17)]
    assert frame.to_dicts() == dataset.to_pandas(
        as_of=3, since=2, columns=["n", "day"], where="n > 12", limit=4
    ).to_dict("records")


@pytest.mark.parametrize("module", ["polars", "pandas"])
def test_a_missing_module_is_named_with_its_remedy_before_anything_is_read(
    store: CountingStore, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    dataset = visits(store)
    counted = reset(dataset)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(lode.MissingDependencyError, match=rf"pip install 'lode-store\[{module}\]'"):
        getattr(dataset, f"to_{module}")()
    assert counted.total == 0
