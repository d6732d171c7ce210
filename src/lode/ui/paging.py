"""One page of a sorted list. The whole list is sorted, not only the page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from lode.errors import InvalidOptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

T = TypeVar("T")

MAX_PAGE_ROWS: Final = 500
_ORDERS: Final = {"asc": False, "desc": True}


class PageRequest(NamedTuple):
    """A page of a list: the column to sort by, the direction, and the rows to skip."""

    sort: str
    order: str
    skip: int
    limit: int


def page_of(
    rows: Sequence[T], wanted: PageRequest, columns: Mapping[str, Callable[[T], Any]]
) -> tuple[list[T], dict[str, Any]]:
    """Return the rows of the page and the facts about it. Rows without a value are last.

    Raises:
        InvalidOptionError: There is no such column, or the order is not ``asc`` or ``desc``.
    """
    value = columns.get(wanted.sort)
    if value is None:
        raise InvalidOptionError(f"sort is {wanted.sort[:40]!r}: it must be one of {', '.join(columns)}")
    descending = _ORDERS.get(wanted.order)
    if descending is None:
        raise InvalidOptionError(f"order is {wanted.order[:40]!r}: it must be asc or desc")
    known = sorted((row for row in rows if value(row) is not None), key=value, reverse=descending)
    ordered = known + [row for row in rows if value(row) is None]
    limit = max(1, min(wanted.limit, MAX_PAGE_ROWS))
    shown = ordered[wanted.skip : wanted.skip + limit]
    return shown, {"sort": wanted.sort, "order": wanted.order, "skip": wanted.skip, "total": len(rows)}
