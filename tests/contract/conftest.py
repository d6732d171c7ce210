from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lode.store import CountingStore, LocalStore, MemoryStore

if TYPE_CHECKING:
    from pathlib import Path


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
