"""The servers the object store is tested against: one of each per worker, started when first asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lode.testing.servers import AzuriteServer, S3Server

if TYPE_CHECKING:
    from collections.abc import Iterator


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
