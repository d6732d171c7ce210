"""An idempotent job: each day becomes exactly one snapshot, whatever fails.

    python examples/nightly_job.py 2026-11-15 [LAKE]

Run it twice, on two machines at once, or kill it and run it again: the day is stored once.
"""

from __future__ import annotations

import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

import lode

REGIONS = ("africa", "america", "asia", "europe")
SCHEMA = {"day": "string!", "region": "string!", "order": "int64!", "price": "decimal(9,2)!"}
PATIENCE = 5


def opened(lake: str) -> lode.Dataset:
    return lode.Dataset(
        "orders",
        lake,
        codec=lode.Parquet(SCHEMA),
        layout=lode.HiveLayout("day"),
        checksum="xxh3-128",
    )


def extract(stager: lode.Stager, day: str, region: str) -> lode.Staged:
    """What one task does, in a process of its own: here, make up the orders of a region."""
    seed = sum(map(ord, day + region))
    orders = (
        {"day": day, "region": region, "order": number, "price": f"{(seed * number) % 9999 / 100:.2f}"}
        for number in range(1000)
    )
    return stager.write_records(orders, task=region)


def run(dataset: lode.Dataset, day: str) -> lode.Snapshot:
    """Stage all regions in parallel, commit them together; do nothing if that was done before."""
    key = ("nightly-orders", day)
    metadata = {"job": "nightly-orders", "day": day}
    # Other writers of the same day may come first.
    with dataset.transaction(metadata, idempotency_key=key, on_conflict="append") as transaction:
        if transaction.replayed is not None:
            return transaction.replayed
        with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
            transaction.add(*pool.map(partial(extract, transaction.stager, day), REGIONS))
        return transaction.commit()


def run_patiently(dataset: lode.Dataset, day: str) -> lode.Snapshot:
    """Run it again when the store fails.

    The key makes that safe also when a commit has landed and its answer was lost: then the next run finds it.
    """
    for attempt in range(PATIENCE):
        try:
            return run(dataset, day)
        except (lode.StoreError, lode.CommitUnknownError, lode.CommitUnpublishedError) as error:
            print(f"try {attempt + 1}: {error}", file=sys.stderr)
            time.sleep(0.1 * 2**attempt)
    raise SystemExit(f"{day}: the store does not answer; run this again later, it is safe")


def main(day: str, lake: str) -> None:
    dataset = opened(lake)
    snapshot = run_patiently(dataset, day)
    replayed = snapshot.commit is not None and snapshot.commit.replayed
    print(f"{day}: {snapshot.row_count} orders in {snapshot.id}, {'from before' if replayed else 'new'}")
    report = lode.verify(dataset)
    print(f"verified {report.snapshots} snapshots, {report.files} files, {report.bytes} bytes")
    for problem in report.problems:
        print(f"  {problem.kind}: {problem.message}", file=sys.stderr)
    if not report.ok:
        raise SystemExit(5)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        main(sys.argv[1], sys.argv[2])
    elif len(sys.argv) == 2:
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(2):  # the second run finds the snapshot of the first
                main(sys.argv[1], folder)
    else:
        raise SystemExit(__doc__)
