"""Checksums of stored bytes, computed while they stream by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, runtime_checkable

from lode.codec.registry import Registry
from lode.errors import InvalidOptionError, StoreError

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from lode.codec.protocol import Sink


class Hasher(Protocol):
    """One running hash."""

    def update(self, data: Any, /) -> object: ...

    def hexdigest(self) -> str: ...


@runtime_checkable
class Checksum(Protocol):
    """A hash algorithm by the name that manifests record."""

    @property
    def name(self) -> str:
        """The name that manifests record."""
        ...

    def start(self) -> Hasher:
        """Begin the hash of one file."""
        ...


@dataclass(frozen=True)
class Md5:
    """MD5: against accidents, not against people; what the Go implementation writes."""

    name: ClassVar[str] = "md5"

    def start(self) -> Hasher:
        import hashlib

        return hashlib.md5(usedforsecurity=False)


@dataclass(frozen=True)
class Sha256:
    """SHA-256: safe against forgery."""

    name: ClassVar[str] = "sha256"

    def start(self) -> Hasher:
        import hashlib

        return hashlib.sha256()


@dataclass(frozen=True)
class Xxh3:
    """XXH3 with 128 bits: the fast one, against accidents."""

    name: ClassVar[str] = "xxh3-128"

    def start(self) -> Hasher:
        import xxhash

        return xxhash.xxh3_128()


CHECKSUMS: Final[Registry[Checksum]] = Registry("checksum", {kind.name: kind for kind in (Md5, Sha256, Xxh3)})


def checksum(choice: str | Checksum | None) -> Checksum | None:
    """Return a checksum by its name, or the one given; ``None`` is none."""
    if choice is None:
        return None
    if isinstance(choice, str):
        return CHECKSUMS.get(choice)
    if isinstance(choice, type) or not isinstance(choice, Checksum):
        raise InvalidOptionError(
            f"{choice!r} is not a checksum: give one of {', '.join(CHECKSUMS.names)}, "
            "or an object that has name and start"
        )
    return choice


class HashingSink:
    """Passes bytes on to a sink, counts them in ``size`` and hashes them, without copying."""

    def __init__(self, sink: Sink, hasher: Hasher | None = None) -> None:
        self._sink = sink
        self._hasher = hasher
        self.size = 0

    def write(self, data: Buffer, /) -> int:
        """Write all of ``data``, also to a sink that takes it piece by piece.

        A sink that returns None, as many a hand-made one does, is taken to have written everything.
        """
        view = memoryview(data).cast("B")
        if self._hasher is not None:
            self._hasher.update(view)
        rest = view
        while rest.nbytes:
            taken: int | None = self._sink.write(rest)
            if taken == 0:
                raise StoreError(f"the sink takes no more bytes, {rest.nbytes} are left")
            rest = rest[rest.nbytes if taken is None else taken :]
        self.size += view.nbytes
        return view.nbytes

    def hexdigest(self) -> str | None:
        """The hash of everything written so far; ``None`` without a hasher."""
        return None if self._hasher is None else self._hasher.hexdigest()
