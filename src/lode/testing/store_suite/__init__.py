"""What every store must do, as tests. Subclass it, say which store, and run pytest.

    class TestMyStore(StoreSuite):
        @pytest.fixture
        def store(self) -> Store:
            return MyStore(...)

The fixture gives an empty store to each test. A store that can do more than the least also mixes in the tests
of what it can do, as ``class TestMyStore(StoreSuite, LinkTests, QueueTests)``: ``TESTS_OF`` has them by
capability, and the suite fails if one is missing.
"""

from __future__ import annotations

from lode.extras import needs

with needs("lode.testing.store_suite", "testing"):
    from lode.testing.store_suite.capabilities import (
        TESTS_OF,
        CapabilityTests,
        LinkTests,
        QueueTests,
        TemporaryTests,
        VolatilePutTests,
    )
    from lode.testing.store_suite.listings import ListingTests
    from lode.testing.store_suite.objects import ObjectTests
    from lode.testing.store_suite.paths import PathTests
    from lode.testing.store_suite.reading import ReadingTests
    from lode.testing.store_suite.swapping import SwappingTests
    from lode.testing.store_suite.threads import race
    from lode.testing.store_suite.writing import WritingTests

__all__ = ["TESTS_OF", "LinkTests", "QueueTests", "StoreSuite", "TemporaryTests", "VolatilePutTests", "race"]


# pytest begins with the last: what the others build on is tested before them.
class StoreSuite(
    CapabilityTests, SwappingTests, WritingTests, ReadingTests, ListingTests, PathTests, ObjectTests
):
    """The conformance tests. Override the attributes where your store is different or slow."""
