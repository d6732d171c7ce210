"""The names of datasets and volumes on a store, and those that are like one that is not there."""

from __future__ import annotations

from contextlib import suppress
from itertools import chain, islice
from typing import TYPE_CHECKING, Final

from lode.near import MAX_NAMES, near
from lode.store.protocol import is_nearby

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lode.store.protocol import Store

# Each name is one request of a store that is far away.
_MAX_REQUESTS: Final = 100
_SUGGESTED: Final = 3


def names_near(store: Store, root: str, wanted: str, exists: Callable[[str], bool]) -> list[str]:
    """The names below ``root`` most like ``wanted``, best first; none if the store cannot be listed."""
    budget = MAX_NAMES if is_nearby(store) else _MAX_REQUESTS
    with suppress(Exception):  # this is part of another error, which must not be lost
        alike = near(wanted, _listed(store, root, wanted, budget), most=2 * _SUGGESTED)
        return [name for name in alike if exists(name)][:_SUGGESTED]
    return []


def _listed(store: Store, root: str, wanted: str, budget: int) -> Iterator[str]:
    """Names below ``root``, first those with the same first letter: a typo is seldom there."""
    names = chain(folders_below(store, root, prefix=wanted[:1]), folders_below(store, root))
    seen = {wanted, ""}
    for name in islice(names, budget):
        if name not in seen:
            seen.add(name)
            yield name


def folders_below(store: Store, root: str, *, prefix: str = "", after: str = "") -> Iterator[str]:
    """The names of the folders below ``root``, each by one request. An object between them is ``""``."""
    while (entry := next(store.list(root + prefix, after=after), None)) is not None:
        name, slash, _ = entry.path.removeprefix(root).partition("/")
        yield name if slash else ""
        # '0' is the character after '/', so this sorts after everything in the folder.
        after = f"{root}{name}0" if slash else entry.path
