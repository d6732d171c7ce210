"""What a shell offers at the tab key: names of datasets and snapshots, and never an error."""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import islice
from typing import Any, Final

from lode.units import count, moment

MOST_SNAPSHOTS: Final = 20


def offer_datasets(ctx: Any, incomplete: str) -> list[str]:
    """The datasets of the root that the command line, or the environment, names."""
    with suppress(Exception):  # a broken store must not write into the line somebody is typing
        from lode.discover import dataset_names

        return [name for name in dataset_names(_store(ctx)) if name.startswith(incomplete)]
    return []


def offer_snapshots(ctx: Any, incomplete: str) -> list[tuple[str, str]]:
    """The newest snapshots of the dataset, each with what helps to tell it from the others."""
    with suppress(Exception):
        from lode.discover import open_dataset

        dataset = open_dataset(ctx.params["dataset"], _store(ctx))
        newest = islice(dataset.history(), MOST_SNAPSHOTS)
        return [
            (found.id, f"{moment(found.created_at)}, {count(found.row_count, 'row')}")
            for found in newest
            if found.id.startswith(incomplete)
        ]
    return []


def _store(ctx: Any) -> Any:
    from lode.cli.root import open_root

    return open_root(ctx.params.get("root") or os.environ["LODE_ROOT"], ctx.params.get("store_option") or ())
