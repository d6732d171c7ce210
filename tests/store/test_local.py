from __future__ import annotations
from pathlib import Path
import pytest
from lode.store import LocalStore
from lode.testing.store_suite import StoreSuite


class TestLocalStore(StoreSuite):
    @pytest.fixture
    def store(self, tmp_path: Path) -> LocalStore:
        return LocalStore(tmp_path / "lake")
