"""What all tests share: real servers, and a summary of what was explored and what was left out."""

from __future__ import annotations

import gc
import os
import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from lode.store import CountingStore, LocalStore, MemoryStore
from lode.testing.servers import AzuriteServer, S3Server
from support.spark import archive

if TYPE_CHECKING:
    from collections.abc import Iterator

# A busy machine makes slow examples, not wrong ones.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


def has_files_in_memory(folder: Path) -> bool:
    """Whether it is a file system in memory with room for the tests, that may run programs."""
    if not os.access(folder, os.W_OK) or shutil.disk_usage(folder).free < MIN_FREE_BYTES:
        return False
    return not os.statvfs(folder).f_flag & getattr(os, "ST_NOEXEC", 0)


# The tests make and remove tens of thousands of folders. That takes a tenth of the time in memory.
MEMORY, MIN_FREE_BYTES = Path("/dev/shm"), 4 << 30
if has_files_in_memory(MEMORY):
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

archive.set_options()


@pytest.fixture(params=["memory", "local"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> CountingStore:
    """Each kind of store in turn, with its calls counted."""
    if request.param == "memory":
        return CountingStore(MemoryStore())
    return CountingStore(LocalStore(tmp_path / "lake", durable=False))


@pytest.fixture
def memory() -> CountingStore:
    """A store in memory, with its calls counted."""
    return CountingStore(MemoryStore())


@pytest.fixture(scope="session")
def java_archive() -> None:
    """For a test that starts Spark: every Java from here on starts with the archive of classes."""
    archive.use_archive()


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    with S3Server() as server:
        server.create("lake")
        yield server


@pytest.fixture(scope="session")
def azurite_server() -> Iterator[AzuriteServer]:
    with AzuriteServer() as server:
        server.create("lake")
        yield server


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests that share Spark, and then slow ones, first.

    A worker begins with each half of the list, and takes from the end of the other's when it is done. So one
    worker starts Spark, and no worker waits for the other's last test.
    """

    def rank(item: pytest.Item) -> int:
        if "spark" in getattr(item, "fixturenames", ()):
            return 0
        return 1 if item.get_closest_marker("slow") else 2

    items.sort(key=rank)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Leave the tests themselves, half a million objects, out of every later garbage collection."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """Some extension modules complain of objects that are left at the end."""
    gc.unfreeze()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    explored = [
        value
        for report in terminalreporter.stats.get("passed", [])
        for name, value in report.user_properties
        if name == "interleavings"
    ]
    if explored:
        terminalreporter.write_line(f"{sum(explored):,} interleavings explored in {len(explored)} scenarios")
    reasons = Counter(report.longrepr[2] for report in terminalreporter.stats.get("skipped", []))
    for reason, count in reasons.items():
        terminalreporter.write_line(
            f"{count} tests left out: {reason.removeprefix('Skipped: ')}", yellow=True
        )
