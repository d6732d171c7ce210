"""A machine without Chromium leaves the tests in a browser out and says so; CI does not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.ui.chromium import find_chromium

ROOT = Path(__file__).parents[2]


def run(folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Collect nothing but tests that need a browser, with a PATH that leads to none."""
    environment = {**os.environ, "PATH": str(folder), "PLAYWRIGHT_BROWSERS_PATH": str(folder), **more}
    environment.pop("LODE_CHROMIUM", None)
    if "CI" not in more:
        environment.pop("CI", None)
    tests = [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider"]
    command = [*tests, "-k", "forced", "tests/ui/test_accessible.py"]
    return subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_tests_are_left_out_and_the_remedy_is_named(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert done.returncode == 0, done.stdout
    assert "1 tests left out: Chromium was not found: ./run browser installs it" in done.stdout


def test_on_ci_its_absence_is_a_failure(tmp_path: Path) -> None:
    done = run(tmp_path, CI="true")
    assert done.returncode == 1, done.stdout
    assert "Chromium was not found" in done.stdout


def test_a_chosen_chromium_that_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LODE_CHROMIUM", "nowhere")
    with pytest.raises(FileNotFoundError, match="LODE_CHROMIUM is 'nowhere'"):
        find_chromium()
