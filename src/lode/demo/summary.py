"""The end of the demo: what is in the lake, and how to look at it."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lode.demo.steps import VISITS
from lode.discover import dataset_names, open_dataset
from lode.store.open import open_store
from lode.ui.routes import PREFIX
from lode.ui_settings import HOST, PORT
from lode.units import size

if TYPE_CHECKING:
    from lode.demo.stage import Stage
    from lode.demo.steps import Demo


def summarize(stage: Stage, demo: Demo, *, live: bool) -> None:
    """Print the result, the content of the lake, and how to see it: at the server, or with commands."""
    stage.end(f"Done in {stage.seconds:.0f} s.", f"{demo.expected:,} rows in, none lost, none there twice.")
    stage.table(("dataset", "snapshots", "rows", "size"), _contents(demo.lake))
    lode, root, folder = _command(), shlex.quote(str(demo.lake)), shlex.quote(str(demo.lake.parent))
    console = f"http://{HOST}:{PORT}{PREFIX}/"
    ways = [("one line of history", f"{lode} log {VISITS} --graph --root {root}")]
    if live:
        ways = [
            ("the console, live", f"http://{demo.server.http}{PREFIX}/"),
            ("gRPC", demo.server.grpc),
            *ways,
            ("to stop the server", "Ctrl-C; the lake stays"),
        ]
    else:
        ways = [
            (f"the console, at {console}", f"{lode} ui --root {root}"),
            *ways,
            ("the same with the server left running", f"{lode} demo --keep"),
        ]
    stage.ways([*ways, ("to remove it all", f"rm -r {folder}")])


def _contents(lake: Path) -> list[tuple[str, str, str, str]]:
    store = open_store(lake)
    lines = []
    for name in dataset_names(store):
        dataset = open_dataset(name, store)
        visible = dataset.plan()
        snapshots = f"{len(dataset.snapshots()):,}"
        lines.append((name, snapshots, f"{visible.row_count:,}", size(visible.size_bytes)))
    return lines


def _command() -> str:
    """``lode`` as it can be typed here: a project's own environment is not on everybody's path."""
    beside = Path(sys.executable).with_name("lode")
    if beside.is_file() and beside.is_relative_to(Path.cwd()):
        return shlex.quote(str(beside.relative_to(Path.cwd())))
    if shutil.which("lode") is not None:
        return "lode"
    return f"{shlex.quote(sys.executable)} -m lode.cli"
