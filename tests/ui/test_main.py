"""``python -m lode.ui``, which is ``lode ui``: a process of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

import lode
from lode.ui.__main__ import main

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    lode.Dataset("d", tmp_path, codec="jsonl").write([{"n": 1}])
    return tmp_path


def test_it_prints_its_address_serves_and_ends_when_told(root: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "lode.ui", "--root", str(root), "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        try:
            assert address.startswith("http://127.0.0.1:")
            assert address.endswith("/ui/")
            with urlopen(address, timeout=60) as response:
                assert b"<title>Lode</title>" in response.read()
            with urlopen(f"{address}api/datasets/d", timeout=60) as response:
                assert b'"snapshots":1' in response.read()
            # A page elsewhere that points its own name here is refused.
            with pytest.raises(HTTPError, match="403") as refused:
                urlopen(Request(f"{address}api/status", headers={"host": "evil.example"}), timeout=60)
            refused.value.close()
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) in (0, 130, -signal.SIGINT)


def test_a_root_that_is_not_there_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--root", str(tmp_path / "nothing")]) == 1
    assert "there is no directory" in capsys.readouterr().err


def test_no_root_at_all_is_told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "LODE_ROOT", "")
    assert main([]) == 2
    assert "--root" in capsys.readouterr().err


def test_a_port_in_use_is_exit_code_1_as_for_serve(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["--root", str(root), "--port", str(port)]) == 1
    assert capsys.readouterr().err.startswith(f"lode ui: cannot listen on 127.0.0.1:{port}")
