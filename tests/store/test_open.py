"""Opening a store from what people have."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from lode.errors import InvalidOptionError, MissingDependencyError
from lode.store import LocalStore, MemoryStore, ObjectStore, open_store

if TYPE_CHECKING:
    from pathlib import Path

S3_OPTIONS = {"region": "us-east-1", "access_key_id": "a", "secret_access_key": "b"}


def test_a_store_is_returned_as_it_is() -> None:
    store = MemoryStore()
    assert open_store(store) is store


def test_a_path_and_a_path_like_open_a_directory(tmp_path: Path) -> None:
    for target in (tmp_path, str(tmp_path)):
        store = open_store(target, durable=False)
        assert isinstance(store, LocalStore)
        assert store.root == tmp_path
        assert not store.durable


def test_a_relative_path_is_taken_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = open_store("lake")
    monkeypatch.chdir("/")
    store.put("x", b"1")
    assert (tmp_path / "lake" / "x").read_bytes() == b"1"


@pytest.mark.parametrize(
    ("query", "durable"),
    [("", True), ("?durable=true", True), ("?durable=false", False), ("?durable=0", False)],
)
def test_a_file_url_says_whether_it_is_durable(tmp_path: Path, query: str, durable: bool) -> None:
    store = open_store(f"file://{tmp_path}{query}")
    assert isinstance(store, LocalStore)
    assert store.durable is durable


def test_a_file_url_opens_the_same_store_again(tmp_path: Path) -> None:
    for durable in (True, False):
        store = LocalStore(tmp_path / "a b%20c?d#e", durable=durable)
        again = open_store(store.url)
        assert isinstance(again, LocalStore)
        assert (again.root, again.durable) == (store.root, durable)


@pytest.mark.parametrize(
    "target",
    ["file://host/path", "file://", "file:///x?durable=perhaps", "file:///x?colour=red", "", "s3://"],
)
def test_what_names_no_store_is_refused(target: str) -> None:
    with pytest.raises(InvalidOptionError):
        open_store(target)


def test_an_unknown_scheme_is_answered_with_the_known_ones() -> None:
    with pytest.raises(InvalidOptionError, match=r"memory://, file://, s3://, gs://, az://"):
        open_store("ftp://example.org/x")


def test_options_that_do_not_apply_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidOptionError, match="colour"):
        open_store(tmp_path, colour="red")
    with pytest.raises(InvalidOptionError, match="durable"):
        open_store("memory://", durable=True)
    with pytest.raises(InvalidOptionError, match="durable"):
        open_store(MemoryStore(), durable=True)
    with pytest.raises(InvalidOptionError):
        open_store("s3://bucket", no_such_option="1", **S3_OPTIONS)


def test_what_is_no_store_at_all_is_refused() -> None:
    with pytest.raises(InvalidOptionError, match="42"):
        open_store(42)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("s3://bucket/a/b", S3_OPTIONS),
        ("s3://bucket", S3_OPTIONS),
        ("az://container/a b%20c", {"account_name": "me", "account_key": "a2V5"}),
        ("gs://bucket/a", {"skip_signature": True}),
    ],
)
def test_an_object_store_url_opens_without_a_request(url: str, options: dict[str, object]) -> None:
    store = open_store(url, **options)
    assert isinstance(store, ObjectStore)
    assert store.url == url
    assert open_store(f"{url}/", **options).url == url


def test_a_local_store_can_be_sent_to_another_process(tmp_path: Path) -> None:
    store = pickle.loads(pickle.dumps(LocalStore(tmp_path, durable=False)))
    assert (store.root, store.durable) == (tmp_path, False)


def test_an_object_store_can_be_sent_to_another_process() -> None:
    store = pickle.loads(pickle.dumps(open_store("s3://bucket/a/b", **S3_OPTIONS)))
    assert store.url == "s3://bucket/a/b"


def test_without_obstore_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'lode-store\[s3\]'"):
        open_store("s3://bucket")


def test_opening_a_directory_does_not_import_obstore(tmp_path: Path) -> None:
    program = (
        "import sys; from lode.store import open_store; "
        "open_store(sys.argv[1]).put('x', b'1'); sys.exit('obstore' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program, os.fspath(tmp_path)], check=True)
