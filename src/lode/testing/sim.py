"""A store as a pure function: the calls, what they do to its contents, and what they answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn, Protocol

from lode.errors import NotFoundError, PathExistsError, StoreError, TransactionClosedError, UsageError
from lode.store.protocol import (
    ObjectInfo,
    ObjectReader,
    ObjectWriter,
    Store,
    SupportsCompareAndSwap,
    byte_view,
    check_path,
    check_prefix,
    check_range,
    same_content,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Buffer

BEFORE = datetime(2000, 1, 1, tzinfo=UTC)
"""When the objects were written that a simulation starts with."""

SINCE = datetime(2000, 1, 2, tzinfo=UTC)
"""The time of all other objects: finer times would make equal states different."""

Verb = Literal[
    "put",
    "get",
    "get_range",
    "exists",
    "head",
    "list",
    "delete",
    "compare_and_swap",
    "take_away",
    "bring_back",
]
MUTATING: frozenset[Verb] = frozenset({"put", "delete", "compare_and_swap", "take_away", "bring_back"})

AWAY = "away/"
"""Where objects are while they are taken away."""
MISSED = f"{AWAY}missed"
"""An object that is there while the store notices that its objects were taken away."""


class SwapStore(Store, SupportsCompareAndSwap, Protocol):
    """A store an actor may also swap a pointer on."""


class Operation(NamedTuple):
    """One store call. ``data`` is what a put or a swap writes, ``path`` is the prefix of a list."""

    verb: Verb
    path: str
    data: bytes | None = None
    expected: bytes | None = None
    offset: int = 0
    length: int = 0
    after: str = ""

    @property
    def mutating(self) -> bool:
        return self.verb in MUTATING


class Answer(NamedTuple):
    """What a call gave back: a value, or an error to raise afresh in every replay."""

    value: Any = None
    error: type[Exception] | None = None
    message: str = ""

    def take(self) -> Any:
        if self.error is not None:
            raise self.error(self.message)
        return self.value


class Contents(Mapping[str, bytes]):
    """What a store holds at one moment. Hashable, so a checker may cache what it works out from it."""

    __slots__ = ("_hash", "_objects")

    def __init__(self, objects: Mapping[str, bytes]) -> None:
        self._objects = dict(sorted(objects.items()))
        self._hash = hash(tuple(self._objects.items()))

    def __getitem__(self, path: str) -> bytes:
        return self._objects[path]

    def __iter__(self) -> Iterator[str]:
        return iter(self._objects)

    def __len__(self) -> int:
        return len(self._objects)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Contents) and self._objects == other._objects)

    def __repr__(self) -> str:
        return f"Contents({self._objects!r})"

    def with_object(self, path: str, data: bytes) -> Contents:
        return Contents({**self._objects, path: data})

    def taken_away(self, *, missed: bool) -> Contents:
        """The same without histories: only data files stay, as if they were put where they belong."""
        kept = {name if "/data/" in name else f"{AWAY}{name}": data for name, data in self._objects.items()}
        return Contents({**kept, MISSED: b""} if missed else kept)

    def brought_back(self) -> Contents:
        """What was taken away in place of what was written meanwhile."""
        return Contents(
            {
                name.removeprefix(AWAY): data
                for name, data in self._objects.items()
                if name != MISSED and (name.startswith(AWAY) or "/data/" in name)
            }
        )

    def without(self, path: str) -> Contents:
        return Contents({name: data for name, data in self._objects.items() if name != path})


NOTHING = Contents({})


def perform(contents: Contents, operation: Operation, initial: Contents = NOTHING) -> tuple[Contents, Answer]:
    """Return what the store holds afterwards (the same object if nothing changed) and what it answers.

    Objects that are as ``initial`` has them are dated ``BEFORE``, all others ``SINCE``.
    """

    def info(name: str) -> ObjectInfo:
        data = contents[name]
        return ObjectInfo(name, len(data), BEFORE if initial.get(name) == data else SINCE)

    path = operation.path
    stored = contents.get(path)
    if MISSED in contents and operation.verb != "bring_back":
        return contents, Answer(error=StoreError, message="the folder of the store is missing")
    match operation.verb:
        case "put":
            if stored is not None:
                return contents, Answer(error=PathExistsError, message=f"{path!r} exists")
            return contents.with_object(path, operation.data or b""), Answer()
        case "delete":
            return (contents if stored is None else contents.without(path)), Answer()
        case "compare_and_swap":
            if not same_content(stored, operation.expected):
                return contents, Answer(False)
            data = operation.data or b""
            return (contents if stored == data else contents.with_object(path, data)), Answer(True)
        case "take_away":
            return contents.taken_away(missed=path == MISSED), Answer()
        case "bring_back":
            return contents.brought_back(), Answer()
        case "exists":
            return contents, Answer(stored is not None)
        case "list":
            found = (name for name in contents if name.startswith(path) and name > operation.after)
            return contents, Answer(tuple(info(name) for name in found))
    if stored is None:
        return contents, Answer(error=NotFoundError, message=f"no object at {path!r}")
    match operation.verb:
        case "get":
            return contents, Answer(stored)
        case "get_range":
            return contents, Answer(stored[operation.offset : operation.offset + operation.length])
        case "head":
            return contents, Answer(info(path))


class SimStore:
    """The store an actor sees: every call becomes an ``Operation`` for ``answer`` to deal with."""

    url = "sim://"

    def __init__(self, answer: Callable[[Operation], Any]) -> None:
        self._answer = answer

    def __reduce__(self) -> NoReturn:
        raise UsageError(f"{self.url} is part of a simulation in this process and cannot be pickled")

    def put(self, path: str, data: Buffer) -> None:
        self._answer(Operation("put", check_path(path), bytes(byte_view(data))))

    def get(self, path: str) -> bytes:
        found: bytes = self._answer(Operation("get", check_path(path)))
        return found

    def get_range(self, path: str, offset: int, length: int) -> bytes:
        check_range(check_path(path), offset, length)
        found: bytes = self._answer(Operation("get_range", path, offset=offset, length=length))
        return found

    def exists(self, path: str) -> bool:
        found: bool = self._answer(Operation("exists", check_path(path)))
        return found

    def head(self, path: str) -> ObjectInfo:
        found: ObjectInfo = self._answer(Operation("head", check_path(path)))
        return found

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        return self._list(Operation("list", check_prefix(prefix), after=after))

    def delete(self, path: str) -> None:
        self._answer(Operation("delete", check_path(path)))

    def take_away(self, *, missed: bool) -> None:
        """Make every history vanish at once, as of a disk that is unmounted.

        Args:
            missed: Whether the store notices that, and refuses every call until the objects are back.
                Otherwise it is empty, and what is put there is gone when they are back.
        """
        self._answer(Operation("take_away", MISSED if missed else ""))

    def bring_back(self) -> None:
        """Put back what was taken away."""
        self._answer(Operation("bring_back", ""))

    def open_reader(self, path: str) -> SimReader:
        return SimReader(self, path, self.head(path).size)

    def open_writer(self, path: str) -> SimWriter:
        return SimWriter(self, check_path(path))

    def _list(self, operation: Operation) -> Iterator[ObjectInfo]:
        yield from self._answer(operation)


class SimSwapStore(SimStore):
    """The same with compare-and-swap."""

    def compare_and_swap(self, path: str, expected: bytes | None, replacement: bytes) -> bool:
        operation = Operation("compare_and_swap", check_path(path), bytes(replacement), expected)
        swapped: bool = self._answer(operation)
        return swapped


class SimReader(ObjectReader):
    """Random access as one head and a range read each time."""

    def __init__(self, store: SimStore, path: str, size: int) -> None:
        self._store = store
        self._path = path
        self._size = size

    @property
    def size(self) -> int:
        return self._size

    def read_at(self, offset: int, length: int) -> bytes:
        return self._store.get_range(self._path, offset, length)

    def close(self) -> None:
        pass


class SimWriter(ObjectWriter):
    """An upload whose only visible step is its commit: one put."""

    def __init__(self, store: SimStore, path: str) -> None:
        self._store = store
        self._path = path
        self._parts: list[bytes] | None = []

    def write(self, data: Buffer) -> int:
        if self._parts is None:
            raise TransactionClosedError(f"the upload to {self._path!r} is closed")
        part = bytes(byte_view(data))
        self._parts.append(part)
        return len(part)

    def commit(self) -> None:
        if self._parts is None:
            raise TransactionClosedError(f"the upload to {self._path!r} is closed")
        data, self._parts = b"".join(self._parts), None
        self._store.put(self._path, data)

    def abort(self) -> None:
        self._parts = None
