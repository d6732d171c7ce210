"""Bytes of any kind become rows or are refused, by the decoders that are written in Python."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.bombs.targets import TARGETS, call

SECONDS: Final = 20
_TESTS: Final = Path(__file__).parents[1]


# Arrow hands rows that are no text to a callback, and only complains if that is impossible.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", TARGETS)
def test_a_changed_seed_is_read_or_refused(name: str) -> None:
    target, seeds = TARGETS[name]

    @settings(max_examples=40)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        changed = bytearray(data.draw(st.sampled_from(seeds)))
        for _ in range(data.draw(st.integers(0, 6))):
            at = data.draw(st.integers(0, len(changed)))
            piece = data.draw(st.binary(max_size=4))
            changed[at : at + data.draw(st.integers(0, 4))] = piece
        call(target, bytes(changed))

    check()


@pytest.mark.soak
@pytest.mark.skipif(find_spec("atheris") is None, reason="needs Atheris: uv sync --inexact --group fuzz")
@pytest.mark.parametrize("name", TARGETS)
def test_bytes_that_reach_new_code_are_read_or_refused(name: str, tmp_path: Path) -> None:
    options = [f"-max_total_time={SECONDS}", "-timeout=10", "-rss_limit_mb=1024", "-max_len=4096"]
    done = subprocess.run(
        [sys.executable, "-m", "support.bombs.fuzz", name, *options, f"-artifact_prefix={tmp_path}/"],
        env={**os.environ, "PYTHONPATH": str(_TESTS)},
        capture_output=True,
        text=True,
        timeout=SECONDS + 180,
    )
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-2_000:]
