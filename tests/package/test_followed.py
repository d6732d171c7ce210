"""A newcomer follows the first pages, in an environment with nothing but the package."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from package.conftest import Environments, checked, run
from support import ROOT, SUPPORT
from support.docs.pages import FOLLOWED_INSTALLED

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("page", FOLLOWED_INSTALLED)
@pytest.mark.slow
def test_a_page_can_be_followed_by_copy_and_paste(
    page: str, environments: Environments, tmp_path: Path
) -> None:
    installed = environments(*FOLLOWED_INSTALLED[page])
    words = [installed.python, SUPPORT / "docs" / "follow.py", ROOT / page]
    environment = {
        "PATH": f"{installed.python.parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(SUPPORT.parent),
    }
    calls = checked(run(words, cwd=tmp_path, env=environment)).splitlines()[-1]
    assert int(calls) > 3
