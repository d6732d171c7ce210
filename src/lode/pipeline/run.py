"""Run a pipeline that is defined in a YAML file."""

from __future__ import annotations

import json
import signal
import sys
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from lode.pipeline.file import load
from lode.spark.session import session

if TYPE_CHECKING:
    from pathlib import Path

    from lode.pipeline.batch import Batch


def run(path: Path, *, once: bool = False, as_json: bool = False) -> None:
    """Run until the pipeline ends, or until SIGINT or SIGTERM; each batch is a line on stdout."""
    definition = load(path)
    pipeline = replace(definition.pipeline, mode="batch") if once else definition.pipeline
    sys.path.insert(0, str(path.parent.resolve()))
    pipeline.check()  # Spark takes long to start
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    spark = session(definition.master, name=pipeline.name, settings=definition.settings)
    try:
        pipeline.run(spark, progress=lambda batch: _print(batch, as_json=as_json), stop=stop)
    finally:
        spark.stop()


def _print(batch: Batch, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(batch.as_dict()), flush=True)
        return
    print(
        f"batch {batch.number}: {batch.snapshots_in} snapshots, {batch.rows_in:,} rows in, "
        f"{batch.rows_out:,} rows out, {batch.seconds:.1f} s → {batch.snapshot.id}"
        f"{' (had been done before)' if batch.replayed else ''}",
        flush=True,
    )
