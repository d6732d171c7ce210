"""The store in object storage, against real servers."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest

from lode.store import open_store
from lode.testing.store_suite import StoreSuite

if TYPE_CHECKING:
    from lode.store import Store
    from lode.testing.servers import AzuriteServer, S3Server


class TestOnS3(StoreSuite):
    swaps_each = 3
    large = 20_000_000

    @pytest.fixture
    def store(self, s3_server: S3Server) -> Store:
        return open_store(f"s3://lake/{uuid.uuid4()}", **s3_server.options)


class TestOnAzure(StoreSuite):
    swaps_each = 3
    large = 20_000_000

    @pytest.fixture
    def store(self, azurite_server: AzuriteServer) -> Store:
        return open_store(f"az://lake/{uuid.uuid4()}", **azurite_server.options)
