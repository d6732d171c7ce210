"""Read many manifests, in parallel and in bounded memory; one that cannot be read stops no other."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final, TypeVar

from lode.errors import DataError, ManifestInvalidError, NotFoundError
from lode.format.manifest import MAX_MANIFEST_BYTES
from lode.format.pointer import named_in
from lode.read.resolve import MAX_POINTER_BYTES
from lode.read.source import get_bounded
from lode.runtime import one_by_one
from lode.store.protocol import is_nearby

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from lode.format.paths import ChainPaths
    from lode.runtime import Runtime
    from lode.store.protocol import Store

M = TypeVar("M")

# Manifests in memory at once, undecoded and decoded.
MAX_BATCH: Final = 256


def read_pointer(store: Store, paths: ChainPaths) -> bytes | None:
    """Return what the pointer names, whatever it is; None if there is no pointer.

    Of one that is too long to be a pointer, only as much as shows that.
    """
    try:
        return named_in(store.get_range(paths.pointer, 0, MAX_POINTER_BYTES + 1))
    except NotFoundError:
        return None


def read_manifests(
    store: Store, paths: Iterable[str], decode: Callable[[bytes, str], M], runtime: Runtime
) -> Iterator[tuple[str, M | DataError]]:
    """Yield each path with its manifest, or with the error that makes it unreadable.

    A manifest that is gone by now is left out. A store that fails raises.
    """

    def read(path: str) -> M | DataError | None:
        try:
            return decode(get_bounded(store, path, MAX_MANIFEST_BYTES), path)
        except NotFoundError:
            return None
        except DataError as error:
            return error
        except RecursionError:
            return ManifestInvalidError(f"{path}: nested too deeply")

    each = one_by_one if is_nearby(store) else runtime.each
    remaining = iter(paths)
    while batch := list(islice(remaining, MAX_BATCH)):
        for path, found in zip(batch, each(read, batch), strict=True):
            if found is not None:
                yield path, found
