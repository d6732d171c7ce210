"""Progress on standard error."""

from __future__ import annotations

import sys


def progress(line: str) -> None:
    """Tell how far it is."""
    print(f"  {line}", file=sys.stderr, flush=True)
