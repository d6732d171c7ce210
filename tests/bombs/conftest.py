"""A server that many bombs share; one that a bomb has damaged is replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.bombs.served import Served

if TYPE_CHECKING:
    from collections.abc import Iterator


class Shared:
    """The server of a worker's tests."""

    def __init__(self, folder: pytest.TempPathFactory) -> None:
        self._folder = folder
        self._served: Served | None = None

    def get(self) -> Served:
        """The server, or a new one."""
        if self._served is None:
            self._served = Served(self._folder.mktemp("bombs"))
        return self._served

    def discard(self) -> None:
        """End the server: it may still work on a bomb."""
        if self._served is not None:
            self._served.close()
            self._served = None


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    made = Shared(tmp_path_factory)
    yield made
    made.discard()
