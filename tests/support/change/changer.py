"""A process that changes a dataset step by step, each once, until it is killed: changer.py LAKE FIRST."""

from __future__ import annotations

import sys
from typing import Any

import lode

Row = tuple[str, int, int]
PARTITIONS = ("a", "b")


def opened(lake: str) -> lode.Dataset:
    schema = {"p": "string!", "id": "int64!", "v": "int64!"}
    return lode.Dataset("d", lake, codec=lode.Parquet(schema), layout=lode.HiveLayout("p"))


def change(dataset: lode.Dataset, step: int) -> None:
    """Make one change under a key of its own."""
    key: Any = {"idempotency_key": f"step-{step}"}
    p = PARTITIONS[step % 2]
    match step % 6:
        case 0 | 1:
            dataset.write([{"p": p, "id": step, "v": 0}, {"p": p, "id": -step, "v": 0}], **key)
        case 2:
            dataset.merge(
                [{"p": p, "id": step - 2, "v": step}, {"p": p, "id": step, "v": 1}], **key, on=["id"]
            )
        case 3:
            dataset.delete(f"id = {-(step - 3)} OR id = {step - 12}", **key)
        case 4:
            dataset.overwrite([{"p": p, "id": step, "v": step}], **key)
        case _:
            dataset.compact(**key)


def expected(rows: list[Row], step: int) -> list[Row]:
    """What a change does to the rows."""
    p = PARTITIONS[step % 2]
    match step % 6:
        case 0 | 1:
            return [*rows, (p, step, 0), (p, -step, 0)]
        case 2:
            new = {step - 2: (p, step - 2, step), step: (p, step, 1)}
            present = {row[1] for row in rows}
            kept = [new.get(row[1], row) for row in rows]
            return kept + [row for id, row in new.items() if id not in present]
        case 3:
            return [row for row in rows if row[1] not in (-(step - 3), step - 12)]
        case 4:
            return [*(row for row in rows if row[0] != p), (p, step, step)]
    return rows


if __name__ == "__main__":
    target = opened(sys.argv[1])
    for number in range(int(sys.argv[2]), 10_000):
        change(target, number)
        print(number, flush=True)
