"""Names of datasets or volumes on a store that are like one that is not there, for its error."""

from __future__ import annotations

from contextlib import suppress
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
    seen = {wanted}
    for prefix in (root + wanted[:1], root):
        after = ""
        while budget and (entry := next(store.list(prefix, after=after), None)) is not None:
            budget -= 1
            name, slash, _ = entry.path.removeprefix(root).partition("/")
            if slash and name not in seen:
                seen.add(name)
                yield name
            # '0' is the character after '/', so this sorts after everything of that name.
            after = f"{root}{name}0" if slash else entry.path
