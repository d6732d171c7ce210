"""An operation that writes rows again refuses those of a damaged file, so that damage keeps its checksum."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import lode
from lode.errors import ChecksumMismatchError, InvalidFormatError
from lode.store.memory import MemoryStore
from lode.store.wrappers import CountingStore

if TYPE_CHECKING:
    from collections.abc import Callable

GROUP = 100
SCHEMA = {"p": "string!", "id": "int64!", "text": "string"}

OPERATIONS: dict[str, Callable[[lode.Dataset], lode.Change]] = {
    "compact": lambda ds: ds.compact(),
    "compact sorted": lambda ds: ds.compact(sort_by=["id"]),
    "compact some": lambda ds: ds.compact(where="id < 500"),
    "delete": lambda ds: ds.delete("id = 7"),
    "delete by a function": lambda ds: ds.delete("text LIKE '%text 7'"),
    "merge": lambda ds: ds.merge([{"p": "a", "id": 7, "text": "new"}], on=["id"]),
    "merge some columns": lambda ds: ds.merge([{"p": "a", "id": 7}], on=["id"]),
    "merge two keys": lambda ds: ds.merge([{"p": "a", "id": 7, "text": "new"}], on=["p", "id"]),
    "merge and delete": lambda ds: ds.merge([{"p": "a", "id": 7}], on=["id"], when_matched="delete"),
    "overwrite": lambda ds: ds.overwrite([{"p": "a", "id": 7, "text": "new"}], where="id = 7"),
}

KINDS: dict[str, dict[str, Any]] = {
    "parquet": {},
    "parquet in partitions": {"partition_by": ["p"]},
    "parquet in gzip": {"compressor": "gzip"},
    "json lines": {"codec": "jsonl"},
    "json lines in gzip": {"codec": "jsonl", "compressor": "gzip"},
    "json lines in zstd": {"codec": "jsonl", "compressor": "zstd"},
    "arrow": {"codec": "arrow"},
}


def made(
    store: Any, *, checksum: str | None = "sha256", codec: Any = "parquet", **options: Any
) -> lode.Dataset:
    if codec == "parquet":
        codec, options["schema"] = lode.Parquet(SCHEMA, row_group_rows=GROUP), None
    elif isinstance(codec, str):
        options["schema"] = SCHEMA
    dataset = lode.Dataset.create("d", store, codec=codec, checksum=checksum, **options)
    for first in (0, 3 * GROUP):
        ids = range(first, first + 3 * GROUP)
        dataset.write([{"p": "a", "id": id, "text": f"some text {id}"} for id in ids])
    return dataset


def flip(store: MemoryStore, path: str, at: int, bit: int = 0) -> bytes:
    """Flip one bit of an object, and return what it was."""
    whole = store.get(path)
    damaged = bytearray(whole)
    damaged[at] ^= 1 << bit
    replaced(store, path, bytes(damaged))
    return whole


def replaced(store: MemoryStore, path: str, data: bytes) -> None:
    store.delete(path)
    store.put(path, data)


@pytest.fixture(params=["whole", "by row groups"])
def size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are read whole, or as large ones: by ranges, with row groups that are copied."""
    if request.param == "by row groups":
        monkeypatch.setattr("lode.change.row_groups.MIN_COPIED_ROWS", GROUP // 2)
        monkeypatch.setattr("lode.change.row_groups.MIN_FILE_BYTES", 1)
        monkeypatch.setattr("lode.read.small.MAX_SMALL_BYTES", 1)


@pytest.mark.usefixtures("size")
@pytest.mark.parametrize("how", OPERATIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_a_damaged_file_are_not_written_again(kind: str, how: str) -> None:
    store = MemoryStore()
    dataset = made(store, **KINDS[kind])
    before = dataset.latest()
    path = dataset.plan().files[0].path
    rows = sorted(map(str, dataset.scan().read_all().to_pylist()))
    whole = flip(store, path, len(store.get(path)) // 3)
    objects = {entry.path for entry in store.list()}

    with pytest.raises(ChecksumMismatchError) as refused:
        OPERATIONS[how](lode.Dataset("d", store))
    assert path in str(refused.value)
    assert dataset.latest() == before
    assert {entry.path for entry in store.list()} == objects
    assert [problem.kind for problem in lode.verify(dataset).problems] == ["checksum"]

    replaced(store, path, whole)
    assert OPERATIONS[how](lode.Dataset("d", store)).snapshot is not None
    assert lode.verify(dataset).ok
    if how.startswith("compact"):
        assert sorted(map(str, dataset.scan().read_all().to_pylist())) == rows


@pytest.mark.usefixtures("size")
@pytest.mark.parametrize("kind", ["parquet", "json lines", "json lines in gzip"])
def test_every_flipped_byte_is_refused(kind: str) -> None:
    store = MemoryStore()
    dataset = made(store, **KINDS[kind])
    path = dataset.plan().files[0].path
    for at in range(0, len(store.get(path)), 17):
        whole = flip(store, path, at, at % 8)
        with pytest.raises((ChecksumMismatchError, InvalidFormatError), match=path):
            dataset.compact()
        replaced(store, path, whole)
    assert dataset.compact().snapshot is not None


def test_a_key_that_is_damaged_is_not_taken_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    # A merge reads the keys of a large file alone. Without a look at its pages it would insert key 7 again.
    monkeypatch.setattr("lode.read.small.MAX_SMALL_BYTES", 1)
    codec = lode.Parquet({"id": "int64!", "text": "string"}, compression="none", dictionary=False)
    for checksum in ("sha256", None):
        store = MemoryStore()
        dataset = lode.Dataset.create("d", store, codec=codec, checksum=checksum)
        dataset.write([{"id": id, "text": f"some text {id}"} for id in range(GROUP)])
        path = dataset.plan().files[0].path
        at = store.get(path).index((7).to_bytes(8, "little"))
        flip(store, path, at, 6)
        refused = InvalidFormatError if checksum is None else ChecksumMismatchError
        with pytest.raises(refused):
            dataset.merge([{"id": 7, "text": "new"}], on=["id"])
        with pytest.raises(refused):
            dataset.delete("id = 7")
        assert dataset.latest().sequence == 2


@pytest.mark.usefixtures("size")
def test_a_damaged_page_is_refused_without_a_checksum_of_its_file() -> None:
    store = MemoryStore()
    codec = lode.Parquet(SCHEMA, row_group_rows=GROUP, compression="none")
    dataset = made(store, checksum=None, codec=codec)
    path = dataset.plan().files[0].path
    flip(store, path, store.get(path).index(b"some text 1") + 3)
    before = dataset.latest()
    with pytest.raises(InvalidFormatError):
        dataset.compact()
    assert dataset.latest() == before


def test_files_with_several_kinds_of_checksums_are_compared_with_their_own() -> None:
    store = MemoryStore()
    for number, checksum in enumerate(("sha256", "md5", "xxh3-128")):
        dataset = lode.Dataset("d", store, codec=lode.Parquet({"id": "int64"}), checksum=checksum)
        dataset.write([{"id": number}])
    paths = [file.path for file in dataset.plan().files]
    for path in paths:
        whole = flip(store, path, 20)
        with pytest.raises(ChecksumMismatchError, match=path):
            dataset.compact()
        replaced(store, path, whole)
    assert dataset.compact().added.files == 1


@pytest.mark.parametrize("by_row_groups", [False, True])
@pytest.mark.parametrize("how", ["compact", "delete"])
def test_a_file_is_read_once_to_be_rewritten_and_checked(
    how: str, by_row_groups: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if by_row_groups:
        monkeypatch.setattr("lode.change.row_groups.MIN_COPIED_ROWS", GROUP // 2)
        monkeypatch.setattr("lode.change.row_groups.MIN_FILE_BYTES", 1)
    monkeypatch.setattr("lode.read.small.MAX_SMALL_BYTES", 1)
    read = {}
    for checksum in (None, "sha256"):
        store = CountingStore(MemoryStore())
        dataset = made(store, checksum=checksum)
        store.reset()
        OPERATIONS[how](dataset)
        read[checksum] = store.bytes_out
    # Beyond the pages and the footer a file has a few bytes: at its beginning, and indexes before the footer.
    assert 0 < read["sha256"] <= read[None] * 1.05
