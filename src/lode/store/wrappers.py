"""Stores around a store that count calls, make them fail or make them slow.

A wrapper has exactly the capabilities of the store inside: ``isinstance(wrapper, SupportsLink)`` is true if
that store can link, and so for every other ``Supports...`` protocol. The exception is ``LatencyStore``.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeVar

from lode.store.protocol import (
    ObjectReader,
    ObjectWriter,
    SupportsBoundedGet,
    SupportsCompareAndSwap,
    SupportsDurability,
    SupportsLink,
    SupportsLocalPath,
    SupportsNearby,
    SupportsQueue,
    SupportsTemporaries,
    SupportsVolatilePut,
    byte_view,
)

if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from typing_extensions import Buffer

    from lode.store.protocol import ObjectInfo, Store

T = TypeVar("T")

_CAPABILITIES: Final = {
    SupportsCompareAndSwap: ("compare_and_swap",),
    SupportsLink: ("link",),
    SupportsQueue: ("queue",),
    SupportsVolatilePut: ("put_volatile", "sync"),
    SupportsTemporaries: ("temporaries", "delete_temporary"),
    SupportsNearby: ("nearby",),
    SupportsLocalPath: ("root", "local_path"),
    SupportsBoundedGet: ("get_bounded",),
    SupportsDurability: ("durable",),
}
_NOT_PICKLED: Final = frozenset({"_lock", *(name for names in _CAPABILITIES.values() for name in names)})


class StoreWrapper(ABC):
    """Passes every call on through ``around``, which a wrapper overrides.

    A wrapper pickles if the store inside and the attributes of the subclass do. ``_lock`` is made anew.
    """

    hidden: ClassVar[frozenset[type]] = frozenset()
    """Capabilities that this wrapper does not pass on."""

    compare_and_swap: Callable[[str, bytes | None, bytes], bool]
    link: Callable[[str, str], None]
    queue: Callable[[str, float, float], AbstractContextManager[None]]
    put_volatile: Callable[[str, Buffer], None]
    sync: Callable[[str], None]
    temporaries: Callable[..., Iterator[ObjectInfo]]
    delete_temporary: Callable[[str], None]
    nearby: bool
    root: Path
    local_path: Callable[[str], Path]
    get_bounded: Callable[[str, int], tuple[bytes, int]]
    durable: bool

    def __init__(self, inner: Store) -> None:
        self.inner = inner
        self._lock = threading.Lock()
        self._take_capabilities()

    def _take_capabilities(self) -> None:
        """Set the capabilities of the store inside on the instance: the class is the same for all stores."""
        for capability, names in _CAPABILITIES.items():
            if isinstance(self.inner, capability) and capability not in self.hidden:
                for name in names:
                    # A subclass may define one itself: ``LatencyStore`` is never nearby.
                    if not hasattr(type(self), name):
                        setattr(self, name, getattr(self, f"_{name}"))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in _NOT_PICKLED}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()
        self._take_capabilities()

    @abstractmethod
    def around(self, method: str, path: str, call: Callable[[], T]) -> T:
        """Make one call. ``method`` names it; for readers and writers: read_at, write, commit, abort."""

    def sent(self, size: int) -> None:  # noqa: B027 - optional to override
        """Observe that ``size`` bytes were sent to the store."""

    def received(self, size: int) -> None:  # noqa: B027 - optional to override
        """Observe that ``size`` bytes were received from the store."""

    @property
    def url(self) -> str:
        return self.inner.url

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.inner!r})"

    def put(self, path: str, data: Buffer) -> None:
        view = byte_view(data)
        self.around("put", path, lambda: self.inner.put(path, view))
        self.sent(view.nbytes)

    def get(self, path: str) -> bytes:
        data = self.around("get", path, lambda: self.inner.get(path))
        self.received(len(data))
        return data

    def get_range(self, path: str, offset: int, length: int) -> bytes:
        data = self.around("get_range", path, lambda: self.inner.get_range(path, offset, length))
        self.received(len(data))
        return data

    def exists(self, path: str) -> bool:
        return self.around("exists", path, lambda: self.inner.exists(path))

    def head(self, path: str) -> ObjectInfo:
        return self.around("head", path, lambda: self.inner.head(path))

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        return self.around("list", prefix, lambda: self.inner.list(prefix, after=after))

    def delete(self, path: str) -> None:
        self.around("delete", path, lambda: self.inner.delete(path))

    def open_reader(self, path: str) -> WrappedReader:
        return WrappedReader(
            self, path, self.around("open_reader", path, lambda: self.inner.open_reader(path))
        )

    def open_writer(self, path: str) -> WrappedWriter:
        return WrappedWriter(
            self, path, self.around("open_writer", path, lambda: self.inner.open_writer(path))
        )

    def _compare_and_swap(self, path: str, expected: bytes | None, replacement: bytes) -> bool:
        inner = self.inner
        assert isinstance(inner, SupportsCompareAndSwap)
        swapped = self.around(
            "compare_and_swap", path, lambda: inner.compare_and_swap(path, expected, replacement)
        )
        self.sent(len(replacement))
        return swapped

    def _link(self, source: str, path: str) -> None:
        inner = self.inner
        assert isinstance(inner, SupportsLink)
        self.around("link", path, lambda: inner.link(source, path))

    def _queue(self, path: str, patience: float, interval: float) -> AbstractContextManager[None]:
        inner = self.inner
        assert isinstance(inner, SupportsQueue)
        return self.around("queue", path, lambda: inner.queue(path, patience, interval))

    def _put_volatile(self, path: str, data: Buffer) -> None:
        inner = self.inner
        assert isinstance(inner, SupportsVolatilePut)
        view = byte_view(data)
        self.around("put_volatile", path, lambda: inner.put_volatile(path, view))
        self.sent(view.nbytes)

    def _sync(self, path: str) -> None:
        inner = self.inner
        assert isinstance(inner, SupportsVolatilePut)
        self.around("sync", path, lambda: inner.sync(path))

    def _temporaries(self, prefix: str = "") -> Iterator[ObjectInfo]:
        inner = self.inner
        assert isinstance(inner, SupportsTemporaries)
        return self.around("temporaries", prefix, lambda: inner.temporaries(prefix))

    def _delete_temporary(self, path: str) -> None:
        inner = self.inner
        assert isinstance(inner, SupportsTemporaries)
        self.around("delete_temporary", path, lambda: inner.delete_temporary(path))

    @property
    def _nearby(self) -> bool:
        return isinstance(self.inner, SupportsNearby) and self.inner.nearby

    @property
    def _root(self) -> Path:
        assert isinstance(self.inner, SupportsLocalPath)
        return self.inner.root

    def _local_path(self, path: str) -> Path:
        inner = self.inner
        assert isinstance(inner, SupportsLocalPath)
        return self.around("local_path", path, lambda: inner.local_path(path))

    def _get_bounded(self, path: str, limit: int) -> tuple[bytes, int]:
        inner = self.inner
        assert isinstance(inner, SupportsBoundedGet)
        # A ``get`` for a wrapper: the same request, and the same fault.
        data, size = self.around("get", path, lambda: inner.get_bounded(path, limit))
        self.received(len(data))
        return data, size

    @property
    def _durable(self) -> bool:
        return isinstance(self.inner, SupportsDurability) and self.inner.durable


class WrappedReader(ObjectReader):
    """A reader whose reads go through its store's ``around``."""

    def __init__(self, store: StoreWrapper, path: str, inner: ObjectReader) -> None:
        self._store = store
        self._path = path
        self._inner = inner

    @property
    def size(self) -> int:
        return self._inner.size

    def read_at(self, offset: int, length: int) -> bytes:
        data = self._store.around("read_at", self._path, lambda: self._inner.read_at(offset, length))
        self._store.received(len(data))
        return data

    def close(self) -> None:
        self._inner.close()


class WrappedWriter(ObjectWriter):
    """A writer whose calls go through its store's ``around``."""

    def __init__(self, store: StoreWrapper, path: str, inner: ObjectWriter) -> None:
        self._store = store
        self._path = path
        self._inner = inner
        self._open = True

    def write(self, data: Buffer) -> int:
        size = self._store.around("write", self._path, lambda: self._inner.write(data))
        self._store.sent(size)
        return size

    def commit(self) -> None:
        self._store.around("commit", self._path, self._inner.commit)
        self._open = False

    def abort(self) -> None:
        if self._open:
            self._store.around("abort", self._path, self._inner.abort)
            self._open = False


class CountingStore(StoreWrapper):
    """Counts calls by method, and bytes.

    ``write`` on a writer adds to ``bytes_in`` but does not count as a call: the number of pieces depends on
    the encoder, not on the store. Opening, committing and aborting count.
    """

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.reset()

    def reset(self) -> None:
        """Set all counts to zero."""
        with self._lock:
            self.counts: Counter[str] = Counter()
            self.events: builtins.list[tuple[str, str]] = []
            self.bytes_in = 0
            self.bytes_out = 0

    @property
    def total(self) -> int:
        return self.counts.total()

    def around(self, method: str, path: str, call: Callable[[], T]) -> T:
        if method != "write":
            with self._lock:
                self.counts[method] += 1
                self.events.append((method, path))
        return call()

    def sent(self, size: int) -> None:
        with self._lock:
            self.bytes_in += size

    def received(self, size: int) -> None:
        with self._lock:
            self.bytes_out += size


class SimulatedCrash(BaseException):
    """Simulates the death of the process. No ``except Exception`` catches it."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A rule for calls that fail.

    Args:
        method: The name of the call, or ``*`` for any; of readers and writers: read_at, write, commit, abort.
        path: A glob pattern (``*`` also matches ``/``) or a predicate.
        nth: The first matching call to fail, counted from 1.
        times: The number of matching calls that fail from there on; None: all of them.
        when: ``before`` the call reaches the store, or ``after`` it, so that only the response is lost.
        error: The error to raise; ``SimulatedCrash`` also makes all later calls through this store crash.
    """

    method: str = "*"
    path: str | Callable[[str], bool] = "*"
    nth: int = 1
    times: int | None = 1
    when: Literal["before", "after"] = "before"
    error: BaseException | type[BaseException] = SimulatedCrash

    def matches(self, method: str, path: str) -> bool:
        if self.method not in ("*", method):
            return False
        return fnmatchcase(path, self.path) if isinstance(self.path, str) else self.path(path)

    def strikes(self, count: int) -> bool:
        """Whether the ``count``-th matching call fails."""
        return count >= self.nth and (self.times is None or count < self.nth + self.times)


class FaultStore(StoreWrapper):
    """Makes chosen calls fail.

    After a ``SimulatedCrash`` every call crashes before it reaches the store: ``finally`` blocks and other
    threads still run, which a dead process would not. Look at the result through the inner store.
    """

    def __init__(self, inner: Store, *faults: Fault) -> None:
        super().__init__(inner)
        self._faults = [(fault, Counter[None]()) for fault in faults]
        self.crashed = False

    def add(self, fault: Fault) -> None:
        """Add a fault. It counts calls from now on."""
        with self._lock:
            self._faults.append((fault, Counter()))

    def clear(self) -> None:
        """Drop all faults. A crashed store stays crashed."""
        with self._lock:
            self._faults.clear()

    def around(self, method: str, path: str, call: Callable[[], T]) -> T:
        struck = self._struck(method, path)
        for fault in struck:
            if fault.when == "before":
                self._raise(fault)
        result = call()
        for fault in struck:
            self._raise(fault)
        return result

    def _struck(self, method: str, path: str) -> builtins.list[Fault]:
        with self._lock:
            if self.crashed:
                raise SimulatedCrash(f"{method} {path!r} after the crash")
            struck = []
            for fault, counter in self._faults:
                if fault.matches(method, path):
                    counter[None] += 1
                    if fault.strikes(counter[None]):
                        struck.append(fault)
            return struck

    def _raise(self, fault: Fault) -> None:
        error = fault.error() if isinstance(fault.error, type) else fault.error
        if isinstance(error, SimulatedCrash):
            self.crashed = True
        raise error


class LatencyStore(StoreWrapper):
    """Sleeps ``seconds`` before each call: a number, or a function of method and path.

    It simulates a remote store, so it is never ``nearby`` and has no local paths: a reader that opens files
    by path would not be slow.
    """

    hidden = frozenset({SupportsLocalPath})
    nearby = False

    def __init__(
        self,
        inner: Store,
        seconds: float | Callable[[str, str], float],
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(inner)
        self._seconds = seconds
        self._sleep = sleep

    def around(self, method: str, path: str, call: Callable[[], T]) -> T:
        seconds = self._seconds
        self._sleep(seconds if isinstance(seconds, (int, float)) else seconds(method, path))
        return call()
