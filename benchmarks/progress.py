"""Progress on standard error."""

from __future__ import annotations

import os
import sys
import time

# When the run began; the processes that it starts read it here.
_BEGAN = float(os.environ.setdefault("LODE_BENCH_BEGAN", str(time.monotonic())))


def progress(line: str) -> None:
    """Tell how far it is, and how long after the start of the run."""
    minutes, seconds = divmod(int(time.monotonic() - _BEGAN), 60)
    print(f"  {minutes:3d}:{seconds:02d}  {line}", file=sys.stderr, flush=True)
