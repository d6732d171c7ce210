"""Run the demo: ``lode demo``, or ``python -m lode.demo``."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from lode import java
from lode.errors import LodeError
from lode.extras import needs

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="lode demo", description="Streams, snapshots, Spark and a kill -9, on this machine alone."
    )
    parser.add_argument("--keep", action="store_true", help="leave the server running to play with")
    given = parser.parse_args(arguments)

    try:
        with needs("lode demo", "server", "spark"):
            from lode.demo.stage import Stage
            from lode.demo.steps import Demo
            from lode.demo.summary import summarize
    except LodeError as error:
        print(f"lode: {error}", file=sys.stderr)
        return 1

    folder = Path(tempfile.mkdtemp(prefix="lode-demo-"))
    stage = Stage()
    demo = Demo(stage, folder / "lake")
    done = False
    try:
        java.use()  # before the first step, not in the middle
        demo.run()
        summarize(stage, demo, live=given.keep)
        done = True
        if given.keep:
            signal.sigwait({signal.SIGINT, signal.SIGTERM})
    except LodeError as error:
        print(f"lode demo: {error}", file=sys.stderr)
        return 1
    finally:
        demo.close()
        if not done:
            shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
