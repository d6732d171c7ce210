"""Run the demo in a temporary directory, which stays if the demo ends well."""

from __future__ import annotations

import shutil
import signal
import tempfile
from pathlib import Path

from lode import java
from lode.demo.stage import Stage
from lode.demo.steps import Demo
from lode.demo.summary import summarize


def run(*, keep: bool = False) -> None:
    """Run every step; with ``keep`` the server runs on until SIGINT or SIGTERM."""
    folder = Path(tempfile.mkdtemp(prefix="lode-demo-"))
    stage = Stage()
    demo = Demo(stage, folder / "lake")
    done = False
    try:
        java.use()  # before the first step, not in the middle
        demo.run()
        summarize(stage, demo, live=keep)
        done = True
        if keep:
            signal.sigwait({signal.SIGINT, signal.SIGTERM})
    finally:
        demo.close()
        if not done:
            shutil.rmtree(folder, ignore_errors=True)
