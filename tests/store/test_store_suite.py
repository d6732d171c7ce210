"""The suite itself: a store that fails it does so at once."""

from __future__ import annotations

import pytest

from lode.errors import StoreError
from lode.store import Fault, FaultStore, MemoryStore
from lode.testing.store_suite import StoreSuite


@pytest.mark.parametrize("nth", [1, 2])
def test_a_swapping_thread_that_dies_leaves_no_reader_waiting(nth: int) -> None:
    store = FaultStore(MemoryStore(), Fault("compare_and_swap", nth=nth, error=StoreError("no more swaps")))
    with pytest.raises(StoreError, match="no more swaps"):
        StoreSuite().test_a_reader_of_a_pointer_never_sees_half_of_it(store)
