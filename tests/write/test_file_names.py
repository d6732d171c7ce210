"""Data files have the extension of their codec, and files without one keep working beside them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as pads
import pytest

import lode
from lode.store import LocalStore, MemoryStore
from support.stores import contents, data_files

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

ROWS = pa.table({"day": ["mon", "tue"], "n": [1, 2]})


def test_other_tools_find_the_files_by_their_extension(tmp_path: Path) -> None:
    dataset = lode.Dataset("d", tmp_path, codec="parquet", layout=lode.HiveLayout("day"))
    dataset.write(ROWS)
    with dataset.transaction() as transaction:
        transaction.stage(ROWS)
        transaction.write_records(ROWS.to_batches())
        transaction.commit()
    files = f"{tmp_path}/**/*.parquet"
    assert duckdb.read_parquet(files, hive_partitioning=False).aggregate("sum(n)").fetchall() == [(9,)]
    assert pl.read_parquet(files, hive_partitioning=False)["n"].sum() == 9
    found = pads.dataset([str(path) for path in tmp_path.rglob("*.parquet")])
    assert found.count_rows() == dataset.count() == 6


def test_a_blob_has_the_extension_of_its_compressor_alone(memory: MemoryStore) -> None:
    names = [
        lode.Dataset(f"d-{name}", memory, compressor=name).write(b"x").files[0].path.rpartition("/")[2]
        for name in ("noop", "gzip", "zstd")
    ]
    assert names == ["blob", "blob.gz", "blob.zst"]


@dataclass
class Own:
    """A codec of a user's own, for integers as text."""

    name = "own"

    def decode(self, source: Any) -> Iterator[list[Any]]:
        yield [int(line) for line in source]

    def encode(self, chunks: Sequence[Any], sink: Any) -> None:
        sink.write(b"".join(b"%d\n" % value for chunk in chunks for value in chunk))


class WithExtension(Own):
    def __init__(self, extension: Any) -> None:
        self.extension = extension


def test_a_codec_without_an_extension_has_files_without_one(memory: MemoryStore) -> None:
    dataset = lode.Dataset("d", memory, codec=Own(), compressor="gzip")
    assert dataset.write([1, 2]).files[0].path.endswith("/data/data.gz")
    assert dataset.read("latest") == [1, 2]


@pytest.mark.parametrize("extension", [".txt", ".tar.x", ""])
def test_a_codec_may_have_an_extension(memory: MemoryStore, extension: str) -> None:
    dataset = lode.Dataset("d", memory, codec=WithExtension(extension), compressor="zstd")
    assert dataset.write([1, 2]).files[0].path.endswith(f"/data/data{extension}.zst")
    assert dataset.read("latest") == [1, 2]


@pytest.mark.parametrize("extension", ["txt", ".", "./x", "/../x", ".a b", ".ä", ".x\n", 5, [".x"]], ids=repr)
def test_an_extension_that_is_none_is_refused_and_nothing_is_written(extension: Any) -> None:
    store = MemoryStore()
    with pytest.raises(lode.InvalidOptionError, match=r"'own' has the extension .* such as '\.csv'"):
        lode.Dataset("d", store, codec=WithExtension(extension)).write([1])
    assert contents(store) == {}


def without_extensions(store: lode.Store) -> None:
    """Rename the files of a dataset as version 0.1 named them."""
    for path, data in contents(store).items():
        renamed = path.removesuffix(".parquet")
        store.delete(path)
        store.put(renamed, data.replace(b'data.parquet"', b'data"'))


@pytest.mark.parametrize("layout", [lode.DefaultLayout(), lode.HiveLayout("day"), lode.FlatLayout()])
def test_files_without_extensions_are_read_verified_copied_and_swept(tmp_path: Path, layout: Any) -> None:
    store = LocalStore(tmp_path / "lake", durable=False)
    lode.Dataset("d", store, codec="parquet", layout=layout, checksum="md5").write(ROWS)
    without_extensions(store)
    dataset = lode.Dataset("d", store, layout=layout)
    dataset.write(ROWS)
    names = {path.rpartition("/")[2] for path in data_files(store)}
    assert names == {"data", "data.parquet"}
    assert dataset.dataset().to_table().num_rows == dataset.scan().read_all().num_rows == 4
    assert lode.verify(dataset).ok
    copied = lode.copy(dataset, tmp_path / "copy")
    assert copied.snapshots == 2
    assert lode.Dataset("d", tmp_path / "copy", layout=layout).count(where="n = 2") == 2

    staged = dataset.stager().stage(ROWS)
    old = [path.removesuffix(".parquet") for path in (file.path for file in staged.files)]
    for path in old:
        store.put(path, b"x")
    found = lode.sweep(dataset, timedelta(0), dry_run=False)
    leftovers = {item.path for item in found.leftovers}
    assert leftovers >= {*old, *(file.path for file in staged.files)}
    assert dataset.scan().read_all().num_rows == 4
