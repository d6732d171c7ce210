"""A data file that was cut or doubled after it was written is noticed before any of its rows is delivered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
import pytest

import lode
from lode.cli.sql import _source as sql_source
from lode.ingest.api.grpc_read.parquet import open_parquet
from lode.spark.filters import Condition
from lode.spark.splits import Piece, PieceReader
from lode.store import LocalStore, MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SCHEMA = {"id": "int64", "region": "string"}
KINDS: dict[str, dict[str, Any]] = {
    "jsonl": {"codec": "jsonl"},
    "jsonl with a schema": {"codec": lode.JSONL(SCHEMA)},
    "jsonl, gzip": {"codec": "jsonl", "compressor": "gzip"},
    "parquet": {"codec": lode.Parquet(SCHEMA)},
    "parquet, zstd": {"codec": lode.Parquet(SCHEMA), "compressor": "zstd"},
    "arrow": {"codec": lode.ArrowIPC(SCHEMA)},
}
ROWS = [{"id": number, "region": "ab"[number % 2]} for number in range(100)]


def half(data: bytes) -> bytes:
    lines = data.splitlines(keepends=True)
    return b"".join(lines[: len(lines) // 2]) if len(lines) == 100 else data[: len(data) // 2]


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "cut": half,
    "doubled": lambda data: data * 2,
    "emptied": lambda _: b"",
    "one more": lambda data: data + b"\n",
}
EVERY_KIND = pytest.mark.parametrize("kind", KINDS)
EVERY_DAMAGE = pytest.mark.parametrize("damage", DAMAGE)


@pytest.fixture(params=["memory", "disk"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> lode.Store:
    return MemoryStore() if request.param == "memory" else LocalStore(tmp_path)


def hurt(store: lode.Store, file: lode.FileRef, damage: str) -> str:
    """Damage a file; the message that names it and both sizes."""
    data = DAMAGE[damage](store.get(file.path))
    store.delete(file.path)
    store.put(file.path, data)
    return f"{file.path} has {len(data)} bytes, its manifest says {file.size_bytes}"


@EVERY_KIND
@EVERY_DAMAGE
def test_no_row_of_a_damaged_file_is_delivered(store: lode.Store, kind: str, damage: str) -> None:
    dataset = lode.Dataset("events", store, **KINDS[kind])
    snapshot = dataset.write(ROWS)
    message = hurt(store, snapshot.files[0], damage)
    with pytest.raises(lode.InvalidFormatError, match=message):
        dataset.read(snapshot)
    with pytest.raises(lode.InvalidFormatError, match=message):
        dataset.scan().read_all()
    with pytest.raises(lode.InvalidFormatError, match=message):
        dataset.scan(columns=["id"], where=pc.field("id") < 5).read_all()


@EVERY_DAMAGE
def test_a_damaged_blob_is_not_read(store: lode.Store, damage: str) -> None:
    dataset = lode.Dataset("blobs", store)
    snapshot = dataset.write(b"abc" * 100)
    message = hurt(store, snapshot.files[0], damage)
    with pytest.raises(lode.InvalidFormatError, match=message):
        dataset.read(snapshot)
    reader = lode.DatasetReader(store)
    with pytest.raises(lode.InvalidFormatError, match=message):
        reader.open_object(snapshot.files[0])
    with pytest.raises(lode.InvalidFormatError, match=message):
        reader.reader_at(snapshot.files[0])


@pytest.mark.parametrize("kind", ["jsonl with a schema", "parquet"])
def test_a_damaged_file_that_the_condition_rules_out_does_no_harm(store: lode.Store, kind: str) -> None:
    dataset = lode.Dataset("events", store, layout=lode.HiveLayout("region"), **KINDS[kind])
    files = {file.path: file for file in dataset.write(ROWS).files}
    message = hurt(store, next(file for path, file in files.items() if "region=b" in path), "cut")
    assert dataset.scan(where=pc.field("region") == "a").read_all().num_rows == 50
    with pytest.raises(lode.InvalidFormatError, match=message):
        dataset.scan(where=pc.field("region") == "b").read_all()


@pytest.mark.parametrize(
    "conditions", [(), (Condition(frozenset({"id"}), pc.field("id") == 5),)], ids=["whole", "filtered"]
)
@EVERY_DAMAGE
def test_sparks_tasks_deliver_nothing_of_a_damaged_file(
    store: lode.Store, damage: str, conditions: tuple[Any, ...]
) -> None:
    dataset = lode.Dataset("events", store, **KINDS["parquet"])
    file = dataset.write(ROWS).files[0]
    message = hurt(store, file, damage)
    reader = PieceReader(store, dataset.components, dataset.plan().schema(), conditions)
    with pytest.raises(lode.InvalidFormatError, match=message):
        list(reader.read([Piece(file, 0, file.size_bytes)]))


@EVERY_DAMAGE
def test_the_read_api_delivers_nothing_of_a_damaged_file(store: lode.Store, damage: str) -> None:
    file = lode.Dataset("events", store, **KINDS["parquet"]).write(ROWS).files[0]
    message = hurt(store, file, damage)
    with pytest.raises(lode.InvalidFormatError, match=message), open_parquet(store, file):
        pass
    with (
        pytest.raises(lode.InvalidFormatError, match=message),
        open_parquet(store, file, store.get(file.path)),
    ):
        pass


@EVERY_DAMAGE
def test_a_query_gets_nothing_of_a_damaged_file(tmp_path: Path, damage: str) -> None:
    dataset = lode.Dataset("events", tmp_path, **KINDS["parquet"])
    message = hurt(dataset.store, dataset.write(ROWS).files[0], damage)
    with pytest.raises(lode.InvalidFormatError, match=message):
        sql_source(dataset.plan()).to_table()


def test_a_block_that_was_cut_is_noticed(store: lode.Store) -> None:
    volume = lode.Volume("disk", store, 100)
    snapshot = volume.commit([volume.stage_write_at(0, b"x" * 100)])
    path = snapshot.blocks[0].path
    store.delete(path)
    store.put(path, b"x" * 50)
    assert volume.read_at(snapshot, 0, 50) == b"x" * 50
    with pytest.raises(lode.ChecksumMismatchError, match="too short"):
        volume.read_at(snapshot, 0, 51)
