"""Every program in ``examples/`` runs as its docstring says, in a process of its own.

``parallel_download.py`` has tests of its own, in ``tests/volume``.
"""

from __future__ import annotations

import ast
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import lode
from lode.cli import main

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lode.testing.plugin import LodeServer

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name: str, *arguments: object) -> str:
    ended = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-3000:]
    return ended.stdout


def test_every_program_shows_how_to_run_it() -> None:
    for program in sorted(EXAMPLES.glob("*.py")):
        text = ast.get_docstring(ast.parse(program.read_text()))
        assert text is not None
        assert f"python examples/{program.name}" in text


def test_concurrent_writers_show_a_rebase_and_a_conflict(tmp_path: Path) -> None:
    output = run("concurrent_writers.py", tmp_path)
    assert "rebases=1" in output
    assert "did not land" in output
    assert lode.verify(lode.open_dataset("visits", tmp_path)).ok


def test_events_are_streamed_exactly_once_into_a_server_of_its_own() -> None:
    assert "1000 events read back, 1000 of them different" in run("stream_events.py")


def test_events_are_streamed_into_a_server_that_runs(lode_server: LodeServer) -> None:
    run("stream_events.py", lode_server.grpc_address, lode_server.http_url)
    stored = lode_server.rows("shop.web.events").sort_by("id")
    assert stored["id"].to_pylist() == list(range(1000))


def test_a_nightly_job_that_runs_twice_is_one_snapshot(tmp_path: Path) -> None:
    first, again = (run("nightly_job.py", "2026-11-15", tmp_path) for _ in range(2))
    assert first.splitlines()[0].endswith("new")
    assert again.splitlines()[0].endswith("from before")
    run("nightly_job.py", "2026-11-16", tmp_path)
    orders = lode.open_dataset("orders", tmp_path)
    assert [snapshot.row_count for snapshot in orders.snapshots()] == [4000, 4000]


@pytest.mark.slow
@pytest.mark.usefixtures("java_archive")
def test_a_spark_pipeline_takes_each_snapshot_once(tmp_path: Path) -> None:
    output = run("spark_pipeline.py", tmp_path)
    assert "visits of /docs: [('mon', 4), ('tue', 4), ('wed', 4)]" in output
    assert [snapshot.row_count for snapshot in lode.open_dataset("daily", tmp_path).snapshots()] == [6, 3]


def test_a_project_of_pipelines_is_validated_tested_and_run(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In the session of the other tests, which takes seconds to start."""
    folder = tmp_path / "project"
    shutil.copytree(EXAMPLES / "project", folder, ignore=shutil.ignore_patterns("lake", "__pycache__"))
    subprocess.run([sys.executable, str(folder / "fill.py")], check=True, capture_output=True)
    monkeypatch.setattr("lode.pipeline.project.session", lambda *_, **__: spark)
    monkeypatch.setattr(type(spark), "stop", lambda _: None)
    monkeypatch.setattr(sys, "path", [*sys.path])
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        for command in ("validate", "test", "run", "status"):
            assert main(["spark", command, str(folder / "lake.yaml")]) == 0, capsys.readouterr()
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    shown = capsys.readouterr().out
    assert "2 pipelines, no problems" in shown
    assert "2 cases, 0 failed" in shown
    lake = folder / "lake"
    assert lode.open_dataset("daily", lake).count() == 9
    assert lode.open_dataset("clean_quarantine", lake).count() == 6
    assert "known_page 6" in shown
