"""``python -m lode.testing.s3`` as a command."""

from __future__ import annotations

import subprocess
import sys

import pytest


def s3(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "lode.testing.s3", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_help_names_the_port() -> None:
    ended = s3("--help")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "PORT" in ended.stdout
    assert "lode.open_store" in ended.stdout


@pytest.mark.parametrize("arguments", [(), ("many",), ("70000",)])
def test_a_wrong_port_is_a_usage_error(arguments: tuple[str, ...]) -> None:
    ended = s3(*arguments)
    assert ended.returncode == 2
    assert "usage: python -m lode.testing.s3" in ended.stderr
    assert "Traceback" not in ended.stderr
