"""Finds the Chromium in which the console is tested; prints it: ``python tests/support/ui/chromium.py``."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Final

NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MISSING: Final = "Chromium was not found: ./run browser installs it, or set LODE_CHROMIUM to its path"


def find_chromium() -> str | None:
    """The one that LODE_CHROMIUM names, else the machine's, else the one playwright has downloaded."""
    chosen = os.environ.get("LODE_CHROMIUM")
    if chosen:
        found = shutil.which(chosen)
        if found is None:
            raise FileNotFoundError(f"LODE_CHROMIUM is {chosen!r}, which is no program")
        return found
    for name in NAMES:
        found = shutil.which(name)
        if found is not None:
            return found
    return _downloaded()


def _downloaded() -> str | None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = playwright.chromium.executable_path
    return path if Path(path).exists() else None


if __name__ == "__main__":
    found = find_chromium()
    print(found or MISSING, file=sys.stdout if found else sys.stderr)
    sys.exit(found is None)
