"""What tests of several subjects share: a server with tables of their own, and a lake with its readers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lode.store import CountingStore, MemoryStore
from lode.testing.plugin import LodeServer
from support.ingest.reading import Lake, Served
from support.ingest.tables import Table

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LodeServer]:
    running = LodeServer(tmp_path_factory.mktemp("streams") / "lake")
    yield running
    running.stop()


@pytest.fixture
def table(server: LodeServer) -> Table:
    return Table(server)


@pytest.fixture
def store() -> CountingStore:
    return CountingStore(MemoryStore())


@pytest.fixture
def lake(store: CountingStore) -> Lake:
    return Lake(store)


@pytest.fixture
def served(lake: Lake) -> Iterator[Served]:
    with Served(lake.service()) as server:
        yield server
