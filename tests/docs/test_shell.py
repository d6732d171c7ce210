"""Pages that are meant to be followed from top to bottom: their shell and Python blocks run in turn."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support import ROOT, SUPPORT
from support.docs.pages import FOLLOWED_HERE


@pytest.mark.parametrize("page", FOLLOWED_HERE)
def test_a_page_can_be_followed(page: str, tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(SUPPORT.parent),
    }
    done = subprocess.run(
        [sys.executable, "-W", "error", SUPPORT / "docs" / "follow.py", ROOT / page],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert int(done.stdout.splitlines()[-1]) > 0
