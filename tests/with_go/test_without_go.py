"""A machine without Go leaves the tests with Lode for Go out and says so; CI does not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Collect nothing but one test that needs Go, with a PATH that leads to none."""
    environment = {**os.environ, "PATH": str(folder), **more}
    if "CI" not in more:
        environment.pop("CI", None)
    tests = [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider"]
    command = [*tests, "-k", "volumes_are_equal", "tests/with_go/test_reading.py"]
    return subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_tests_are_left_out_and_the_remedy_is_named(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert done.returncode == 0, done.stdout
    assert "1 tests left out: Go was not found: install Go 1.25 or newer" in done.stdout


def test_on_ci_its_absence_is_a_failure(tmp_path: Path) -> None:
    done = run(tmp_path, CI="true")
    assert done.returncode == 1, done.stdout
    assert "Go was not found" in done.stdout
