"""Stores of objects, their protocol and their wrappers."""

from lode.store.local import LocalStore
from lode.store.memory import MemoryStore
from lode.store.object import ObjectStore, open_object_store
from lode.store.open import open_store
from lode.store.protocol import (
    ObjectInfo,
    ObjectReader,
    ObjectWriter,
    Store,
    SupportsBoundedGet,
    SupportsCompareAndSwap,
    SupportsDurability,
    SupportsLink,
    SupportsLocalPath,
    SupportsNearby,
    SupportsQueue,
    SupportsTemporaries,
    SupportsVolatilePut,
    check_path,
    check_range,
)
from lode.store.wrappers import CountingStore, Fault, FaultStore, LatencyStore, SimulatedCrash, StoreWrapper

__all__ = [
    "CountingStore",
    "Fault",
    "FaultStore",
    "LatencyStore",
    "LocalStore",
    "MemoryStore",
    "ObjectInfo",
    "ObjectReader",
    "ObjectStore",
    "ObjectWriter",
    "SimulatedCrash",
    "Store",
    "StoreWrapper",
    "SupportsBoundedGet",
    "SupportsCompareAndSwap",
    "SupportsDurability",
    "SupportsLink",
    "SupportsLocalPath",
    "SupportsNearby",
    "SupportsQueue",
    "SupportsTemporaries",
    "SupportsVolatilePut",
    "check_path",
    "check_range",
    "open_object_store",
    "open_store",
]
