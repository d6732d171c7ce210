"""Operations on datasets of blobs."""

from __future__ import annotations

import lode
from lode.store import MemoryStore


def written() -> lode.Dataset:
    dataset = lode.Dataset("d", MemoryStore())
    for blob in (b"one", b"two", b""):
        dataset.write(blob)
    return dataset


def test_a_restored_blob_is_the_newest_one() -> None:
    dataset = written()
    dataset.restore(1)
    assert dataset.read(dataset.latest()) == b"one"
    dataset.restore("latest")
    assert dataset.read("latest") == b"one"
    dataset.restore(3)
    assert dataset.read("latest") == b"", "an empty blob is a blob"
    assert [dataset.read(number) for number in (1, 2, 3)] == [b"one", b"two", b""]


def test_an_expiry_keeps_the_newest_blob() -> None:
    dataset = written()
    dataset.restore(2)
    lode.expire(dataset, keep=1, dry_run=False)
    assert dataset.read("latest") == b"two"
