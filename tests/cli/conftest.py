"""A lake of its own for each test, and ``lode`` called in this process."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING

import pytest

from lode.cli import main
from support.cli.running import Ended
from support.cli.visits import write_visits

if TYPE_CHECKING:
    from pathlib import Path

    import lode
    from support.cli.running import Run


@pytest.fixture(autouse=True)
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A root in the environment; the test stands beside it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LODE_ROOT", "file://" + str(tmp_path / "lake") + "?durable=false")
    (tmp_path / "lake").mkdir()
    return tmp_path / "lake"


@pytest.fixture
def run(capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Run:
    def call(*arguments: str, stdin: bytes = b"") -> Ended:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = main(arguments)
        written = capsysbinary.readouterr()
        return Ended(code, written.out, written.err.decode())

    return call


@pytest.fixture
def visits(lake: Path) -> lode.Dataset:
    return write_visits(lake)
