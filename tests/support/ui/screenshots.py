"""Make the pictures of docs/console.md: ``PYTHONPATH=tests ./run python -m support.ui.screenshots``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from support import ROOT
from support.ui.browsing import launched
from support.ui.scene import SHOTS, scene, take

PICTURES: Final = ROOT / "docs" / "images"


def picture(name: str) -> Path:
    return PICTURES / f"console-{name}.png"


def main(folder: Path = PICTURES) -> None:
    """Replace all pictures."""
    with scene() as stage, launched() as browser:
        for shot in SHOTS:
            path = folder / picture(shot.name).name
            path.write_bytes(take(browser, stage, shot))
            print(f"{path.name}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
