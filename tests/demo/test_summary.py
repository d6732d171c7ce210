"""How the demo ends: what lies in the lake, and commands that show it."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import pytest

from lode.cli import main
from lode.demo.stage import Stage
from lode.demo.steps import Demo
from lode.demo.summary import summarize
from support.cli.visits import write_visits

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def demo(tmp_path: Path) -> Demo:
    lake = tmp_path / "lake"
    lake.mkdir()
    write_visits(lake)
    return Demo(Stage(), lake)


def test_a_demo_that_is_over_tells_what_to_run(demo: Demo, capsys: pytest.CaptureFixture[str]) -> None:
    summarize(demo.stage, demo, live=False)
    told = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert "visits 2 3" in [" ".join(line.split()[:3]) for line in told]
    assert "the console, at http://127.0.0.1:9070/ui/" in told
    assert any(line.endswith(f"ui --root {demo.lake}") for line in told)
    assert f"rm -r {demo.lake.parent}" in told
    (log,) = [shlex.split(line) for line in told if " log " in line]
    assert main(log[log.index("log") :]) == 0


def test_a_demo_that_goes_on_tells_its_address(demo: Demo, capsys: pytest.CaptureFixture[str]) -> None:
    summarize(demo.stage, demo, live=True)
    told = capsys.readouterr().out
    assert f"http://{demo.server.http}/ui/" in told
    assert " ui --root" not in told
