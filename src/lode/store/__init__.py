"""Stores: where objects live."""

from lode.store.doctor import Diagnosis, Finding, diagnose
from lode.store.local import LocalStore
from lode.store.memory import MemoryStore
from lode.store.object import ObjectStore, open_object_store
from lode.store.open import open_store
from lode.store.protocol import (
    ObjectInfo,
    ObjectReader,
    ObjectWriter,
    Store,
    SupportsCompareAndSwap,
    check_path,
    check_range,
)
from lode.store.wrappers import (
    CountingStore,
    Fault,
    FaultStore,
    LatencyStore,
    SimulatedCrash,
    StoreWrapper,
)

__all__ = [
    "CountingStore",
    "Diagnosis",
    "Fault",
    "FaultStore",
    "Finding",
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
    "SupportsCompareAndSwap",
    "check_path",
    "check_range",
    "diagnose",
    "open_object_store",
    "open_store",
]
