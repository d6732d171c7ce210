"""Lode for Go, built from the module proxy, as the other side of every lake."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from support import real_go

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def go_driver() -> str:
    """Build it once. CI has Go; there, its absence is a failure."""
    if real_go.find_go() is None and "CI" not in os.environ:
        pytest.skip(real_go.MISSING)
    return str(real_go.driver())


@pytest.fixture
def go(go_driver: str) -> Iterator[real_go.GoProcess]:
    """One process of Go."""
    with real_go.running(go_driver) as process:
        yield process
