"""``./run`` prepares its environment once, however many start at once and however they end."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Stands in for uv, which would download a gigabyte: it makes an environment, slowly, and reports an overlap.
UV = f"""#!/bin/sh
case "$*" in *--dry-run*) exit ;; cache*) exit ;; esac
mkdir busy || echo overlap >> log
echo "sync $*" >> log
while [ -e hold ]; do sleep 0.05; done
mkdir -p .venv/bin
ln -sf {sys.executable} .venv/bin/python
sleep 0.3
rmdir busy
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with this project's ``run`` and a uv that is quick."""
    shutil.copy(ROOT / "run", tmp_path)
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "download_size.py", tmp_path / "scripts")
    for name in ("uv.lock", "pyproject.toml"):
        (tmp_path / name).touch()
    uv = tmp_path / "bin" / "uv"
    uv.parent.mkdir()
    uv.write_text(UV)
    uv.chmod(0o755)
    return tmp_path


def start(project: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "PATH": f"{project / 'bin'}:{os.environ['PATH']}"}
    for name in ("UV_PROJECT_ENVIRONMENT", "UV_CACHE_DIR"):
        environment.pop(name, None)
    return subprocess.Popen(
        [project / "run", "python", "-c", "print('ran')"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def synced(project: Path) -> list[str]:
    log = project / "log"
    return log.read_text().splitlines() if log.exists() else []


def finish(process: subprocess.Popen[str]) -> None:
    out, errors = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "ran\n"), errors


def wait_for_sync(project: Path) -> None:
    deadline = time.monotonic() + 60
    while not synced(project):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_those_that_start_at_once_prepare_once(project: Path) -> None:
    for process in [start(project) for _ in range(3)]:
        finish(process)
    assert len(synced(project)) == 1


def test_a_kill_leaves_no_lock_behind(project: Path) -> None:
    (project / "hold").touch()
    with start(project) as killed:
        wait_for_sync(project)
        os.killpg(killed.pid, signal.SIGKILL)
    (project / "hold").unlink()
    (project / "busy").rmdir()
    with start(project) as process:
        finish(process)
    assert len(synced(project)) == 2


def test_an_installation_that_outlives_its_run_keeps_others_out(project: Path) -> None:
    (project / "hold").touch()
    with start(project) as killed:
        wait_for_sync(project)
        os.kill(killed.pid, signal.SIGKILL)
        with start(project) as process:
            assert process.stderr is not None
            assert "waiting for another ./run" in process.stderr.readline()
            (project / "hold").unlink()
            finish(process)
    assert "overlap" not in synced(project)


def test_another_lock_file_is_installed_also_on_the_way_back(project: Path) -> None:
    for content in ("a", "b", "a", "a"):
        (project / "uv.lock").write_text(content)
        with start(project) as process:
            finish(process)
    assert len(synced(project)) == 3
