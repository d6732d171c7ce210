"""One server for the tests of a module, and tables of their own for each test."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import pytest

from lode.testing.plugin import LodeServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from google.cloud import bigquery

_numbers = count(1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LodeServer]:
    directory = tmp_path_factory.mktemp("jobs")
    running = LodeServer(directory / "lake", buckets=directory / "out")
    yield running
    running.stop()


@pytest.fixture(scope="module")
def client(server: LodeServer) -> Iterator[bigquery.Client]:
    with server.bigquery_client("p") as made:
        made.create_dataset("d")
        yield made


@pytest.fixture
def table() -> str:
    """The name of a table that does not exist."""
    return f"p.d.t{next(_numbers)}"


@pytest.fixture
def rows(server: LodeServer) -> Callable[[str], list[dict[str, object]]]:
    """Reads the visible rows of a table with the library."""
    return lambda name: server.rows(name).to_pylist()
