"""A small dataset that tests of commands look at."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lode

if TYPE_CHECKING:
    from pathlib import Path


def write_visits(lake: Path) -> lode.Dataset:
    """Two snapshots by day: mon and tue from a crawler, then wed under a key."""
    dataset = lode.Dataset(
        "visits",
        str(lake),
        codec=lode.Parquet({"day": "string!", "page": "string", "visits": "int64"}),
        layout=lode.HiveLayout("day"),
        checksum="sha256",
    )
    monday = {"day": "mon", "page": "/", "visits": 3}
    dataset.write([monday, {"day": "tue", "page": "/docs", "visits": 5}], {"source": "crawler"})
    dataset.write([{"day": "wed", "page": None, "visits": 7}], idempotency_key=("nightly", "1"))
    return dataset
