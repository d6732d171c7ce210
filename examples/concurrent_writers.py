"""Lode in half a minute: write, rebase, conflict, read an earlier snapshot.

python examples/concurrent_writers.py [DIRECTORY]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pyarrow.compute as pc

import lode


def say(text: str) -> None:
    print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n{text}")


def show(dataset: lode.Dataset) -> None:
    """Print the history as a table, newest first."""
    print(f"  {'#':>3}  {'snapshot':<36}  {'rows':>4}  {'days':<24}  by")
    for snapshot in dataset.history():
        days = {dataset.layout.partition_of(dataset.id, file.path) for file in snapshot.files}
        row = f"{snapshot.sequence:>3}  {snapshot.id:<36}  {snapshot.row_count:>4}"
        print(f"  {row}  {', '.join(sorted(days)):<24}  {snapshot.metadata['by']}")


def main(lake: str) -> None:
    schema = {"day": "string!", "page": "string!", "visits": "int64!"}

    def opened() -> lode.Dataset:
        """What each process of its own would do."""
        return lode.Dataset(
            "visits",
            lake,
            codec=lode.Parquet(schema),
            layout=lode.HiveLayout("day"),
            checksum="xxh3-128",
        )

    say(f"1. Write a snapshot to {lake}")
    ann, bob = opened(), opened()
    first = ann.write([{"day": "mon", "page": "/", "visits": 3}], {"by": "ann"})
    print(f"  {first}")

    say("2. Two writers, two days: the second rebases by itself, neither sees an error")
    bob.write(
        [{"day": "tue", "page": "/", "visits": 5}, {"day": "tue", "page": "/docs", "visits": 9}],
        {"by": "bob"},
    )
    rebased = ann.write([{"day": "wed", "page": "/", "visits": 2}], {"by": "ann"})
    print(f"  ann's commit: {rebased.commit}")

    say("3. Two writers, one day: exactly one of them conflicts, and nothing is uploaded twice")
    try:
        bob.write([{"day": "wed", "page": "/docs", "visits": 7}], {"by": "bob"})
    except lode.SnapshotConflictError as conflict:
        print(f"  {conflict}")
        print("  bob looks at what ann wrote, finds it fine, and commits what he had staged:")
        print(f"  {conflict.transaction.commit()}")

    say("4. The same job run twice under one key is one snapshot")
    for _ in range(2):
        snapshot = bob.write(
            [{"day": "thu", "page": "/", "visits": 1}],
            {"by": "bob"},
            idempotency_key=("nightly", "2026-11-19"),
        )
        print(f"  {snapshot.id}  replayed={snapshot.commit.replayed if snapshot.commit else None}")

    say("5. History is one line")
    show(opened())

    say("6. Read back: everything, a filter that opens one file, and Monday's world")
    reader = opened()
    table = reader.scan().read_all()
    print(f"  {table.num_rows} rows, {pc.sum(table.column('visits'))} visits")
    docs = reader.scan(where=pc.field("day") == "tue", columns=["page", "visits"]).read_all()
    print(f"  on tuesday: {docs.to_pylist()}")
    print(f"  as of the first snapshot: {reader.scan(as_of=first).read_all().to_pylist()}")

    report = lode.verify(reader)
    say("7. Verify")
    print(f"  {report.snapshots} snapshots, {report.files} files, {report.bytes} bytes")
    print(f"  problems: {len(report.problems)}")
    assert report.ok


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(str(Path(sys.argv[1]).resolve()))
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(f"{folder}/lake")
