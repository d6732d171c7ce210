"""Pages that are meant to be followed from top to bottom: their shell and Python blocks run in turn."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ("docs/start.md", "docs/guides/recovering.md")
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"# exit code (\d+)$")
# Installing is for those who have not done it.
SETTING_UP = ("python3 -m venv", "pip install")


@pytest.mark.parametrize("page", PAGES)
def test_a_page_can_be_followed(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    namespace: dict[str, object] = {"__name__": "__page__"}
    ran = 0
    for kind, text in BLOCK.findall((ROOT / page).read_text()):
        if kind == "python":
            exec(compile(text, page, "exec", dont_inherit=True), namespace)
            continue
        for line in text.splitlines():
            if line.startswith("export "):
                name, _, value = line.removeprefix("export ").partition("=")
                monkeypatch.setenv(name, value)
            elif not line.startswith(SETTING_UP):
                expected = int(found[1]) if (found := CODE.search(line)) else 0
                ended = subprocess.run(
                    ["bash", "-o", "pipefail", "-c", line], capture_output=True, text=True, check=False
                )
                assert ended.returncode == expected, f"{line}\n{ended.stdout}{ended.stderr}"
                ran += 1
    assert ran
