"""The datasets and volumes of a store, a page at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lode.discover import dataset_names, volume_names
from lode.errors import LodeError
from lode.runtime import REAL
from lode.ui import volumes

if TYPE_CHECKING:
    from collections.abc import Callable

    from lode.store.protocol import Store
    from lode.ui.datasets import Datasets

MAX_ENTRIES: Final = 100


def overview(store: Store, datasets: Datasets, *, after: str, limit: int) -> dict[str, Any]:
    """Datasets and volumes after a name. A damaged one does not hide the others."""
    limit = max(1, min(limit, MAX_ENTRIES))
    names = dataset_names(store)
    others = volume_names(store)
    page = [name for name in names if name > after][: limit + 1]
    shown = [name for name in others if name > after][: limit + 1]
    ends = [found[limit - 1] for found in (page, shown) if len(found) > limit]
    # Both lists end at the same name, so that one name marks the start of the next page.
    last = min(ends) if ends else None
    return {
        "datasets_total": len(names),
        "volumes_total": len(others),
        "datasets": _each(datasets.summary, page, last),
        "volumes": _each(lambda name: volumes.summary(store, name), shown, last),
        "next": last,
    }


def _each(
    summary: Callable[[str], dict[str, Any]], names: list[str], last: str | None
) -> list[dict[str, Any]]:
    def described(name: str) -> dict[str, Any]:
        try:
            return summary(name)
        except LodeError as error:
            return {"name": name, "error": str(error), "kind": type(error).__name__}

    return REAL.each(described, [name for name in names if last is None or name <= last])
