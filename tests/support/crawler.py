"""A writer in a process of its own: appends numbered rows to its partition and says what was acknowledged.

    python crawler.py URL DATASET NAME FIRST COUNT STOP OPTIONS

It ends after COUNT rows, or earlier once there is a file STOP.
Each row goes under its own idempotency key, so a row whose acknowledgement was lost can be sent again.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import lode


def main(
    url: str, dataset_id: str, name: str, first: int, count: int, stop: Path, options: dict[str, Any]
) -> None:
    store = lode.open_store(url, **options)
    dataset = lode.Dataset(dataset_id, store, codec=lode.JSONL(), layout=lode.HiveLayout("name"))
    for number in range(first, first + count):
        if stop.exists():
            return
        row = {"name": name, "number": number}
        snapshot = dataset.write([row], idempotency_key=(name, str(number)))
        assert snapshot.commit is not None
        print(number, snapshot.id, snapshot.commit.rebases, flush=True)


if __name__ == "__main__":
    where, which, who, start, amount, until, settings = sys.argv[1:]
    main(where, which, who, int(start), int(amount), Path(until), json.loads(settings))
