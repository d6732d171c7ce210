"""Pages that are meant to be followed from top to bottom: their shell and Python blocks run in turn."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from support.cli.page_driver import run_line
from support.docs.pages import FOLLOWED_PAGES, ROOT, blocks_of

# Lines that install, and lines that serve until they are stopped. Other tests do both.
NOT_FOLLOWED = ("python3 -m venv", "pip install", "./run ", "lode serve ", "lode ui")


@pytest.mark.parametrize("page", FOLLOWED_PAGES)
def test_a_page_can_be_followed(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    namespace: dict[str, object] = {"__name__": "__page__"}
    calls = 0
    for block in blocks_of(ROOT / page):
        if block.language == "python":
            block.run(namespace)
        for line in block.text.splitlines() if block.language == "sh" else ():
            if line.startswith("export "):  # undone after the test
                name, _, value = line.removeprefix("export ").partition("=")
                monkeypatch.setenv(name, value)
            elif not line.startswith(NOT_FOLLOWED):
                calls += run_line(line)
    assert calls
