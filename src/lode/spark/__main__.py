"""Run a pipeline from the command line: ``lode spark run pipeline.yaml``."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from lode.errors import LodeError
from lode.spark.definition import load
from lode.spark.session import session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lode.spark.pipeline import Batch


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("lode spark", description="Pipelines between datasets, on Spark.")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run a pipeline that is written down in a YAML file")
    run.add_argument("pipeline", type=Path, help="the YAML file; its folder is searched for Python steps")
    run.add_argument(
        "--once", action="store_true", help="do what is waiting, then end, whatever the file says"
    )
    run.add_argument("--json", action="store_true", help="tell about each batch in a line of JSON")
    chosen = parser.parse_args(arguments)
    try:
        return _run(chosen.pipeline, once=chosen.once, as_json=chosen.json)
    except LodeError as error:
        print(f"lode: {error}", file=sys.stderr)
        return 1


def _run(path: Path, *, once: bool, as_json: bool) -> int:
    definition = load(path)
    pipeline = replace(definition.pipeline, mode="batch") if once else definition.pipeline
    sys.path.insert(0, str(path.parent.resolve()))
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    spark = session(definition.master, name=pipeline.name, settings=definition.settings)
    try:
        pipeline.run(spark, progress=lambda batch: _tell(batch, as_json=as_json), stop=stop)
    finally:
        spark.stop()
    return 0


def _tell(batch: Batch, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(batch.as_dict()), flush=True)
        return
    print(
        f"batch {batch.number}: {batch.snapshots_in} snapshots, {batch.rows_in:,} rows in, "
        f"{batch.rows_out:,} rows out, {batch.seconds:.1f} s → {batch.snapshot.id}"
        f"{' (had been done before)' if batch.replayed else ''}",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
