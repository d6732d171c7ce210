"""What the tests of every topic are given: an empty store, and how much to ask of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

import pytest

if TYPE_CHECKING:
    from lode.store.protocol import Store
    from lode.testing.sim import SwapStore


class StoreTests:
    """Tests of one store. Override the attributes where your store is different or slow."""

    can_swap: ClassVar[bool] = True
    """False for a store without ``compare_and_swap``: its tests are then expected to fail."""

    racers: ClassVar[int] = 16
    swaps_each: ClassVar[int] = 10
    large: ClassVar[int] = 5_000_000

    @pytest.fixture
    def store(self) -> Store:
        raise NotImplementedError("override the fixture 'store' with one that gives an empty store")

    @pytest.fixture
    def swapping_store(self, store: Store, request: pytest.FixtureRequest) -> SwapStore:
        if not self.can_swap:
            request.applymarker(
                pytest.mark.xfail(
                    raises=AttributeError, strict=True, reason="AttributeError: no compare_and_swap"
                )
            )
        return cast("SwapStore", store)
