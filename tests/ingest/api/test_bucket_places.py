"""The directory of buckets shares nothing with the lake or the state: jobs write files there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lode.errors import InvalidOptionError
from lode.ingest.settings import check_buckets
from lode.store import LocalStore, MemoryStore
from lode.testing.plugin import LodeServer

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def lake(tmp_path: Path) -> LocalStore:
    (tmp_path / "lake" / "inside").mkdir(parents=True)
    (tmp_path / "state" / "inside").mkdir(parents=True)
    (tmp_path / "link-to-lake").symlink_to(tmp_path / "lake")
    (tmp_path / "link-to-all").symlink_to(tmp_path)
    return LocalStore(tmp_path / "lake")


@pytest.mark.parametrize(
    ("buckets", "what"),
    [
        ("lake", "the lake"),
        ("lake/inside", "the lake"),
        ("lake/not-there-yet", "the lake"),
        ("lake/../lake/inside", "the lake"),
        ("link-to-lake", "the lake"),
        ("link-to-lake/inside", "the lake"),
        ("state", "the state directory"),
        ("state/inside", "the state directory"),
        ("link-to-all/state", "the state directory"),
        (".", "the state directory"),
        ("link-to-all", "the state directory"),
    ],
)
def test_buckets_that_share_a_directory_are_refused(
    tmp_path: Path, lake: LocalStore, buckets: str, what: str
) -> None:
    with pytest.raises(InvalidOptionError, match=f"--buckets .* {what}, .*: choose a directory of its own"):
        check_buckets(tmp_path / buckets, lake, tmp_path / "state")


def test_a_lake_that_is_a_link_into_the_buckets_is_refused(tmp_path: Path) -> None:
    (tmp_path / "buckets" / "b").mkdir(parents=True)
    (tmp_path / "lake").symlink_to(tmp_path / "buckets" / "b")
    with pytest.raises(InvalidOptionError, match="the lake"):
        check_buckets(tmp_path / "buckets", LocalStore(tmp_path / "lake"), tmp_path / "state")


@pytest.mark.parametrize("buckets", ["lake-2", "buckets", "lak", "state-of-others/a"])
def test_a_directory_of_its_own_is_accepted(tmp_path: Path, lake: LocalStore, buckets: str) -> None:
    check_buckets(tmp_path / buckets, lake, tmp_path / "state")
    check_buckets(None, lake, tmp_path / "state")


def test_a_lake_elsewhere_is_compared_by_its_state_only(tmp_path: Path) -> None:
    check_buckets(tmp_path / "lake", MemoryStore(), tmp_path / "state")
    with pytest.raises(InvalidOptionError, match="the state directory"):
        check_buckets(tmp_path, MemoryStore(), tmp_path / "state")


def test_a_server_does_not_start_with_such_buckets(tmp_path: Path) -> None:
    with pytest.raises(InvalidOptionError, match="--buckets"):
        LodeServer(tmp_path / "lake", buckets=tmp_path / "lake" / "ingest-state")
