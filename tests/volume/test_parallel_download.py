"""The download example against a server that drops connections, killed midway and started again."""

from __future__ import annotations

import hashlib
import random
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import lode
from support import SUPPORT

if TYPE_CHECKING:
    from collections.abc import Iterator

EXAMPLE = Path(__file__).parents[2] / "examples" / "parallel_download.py"
SERVER = SUPPORT / "volume" / "range_server.py"
CONTENT = random.Random(0).randbytes(3_000_000)
PIECE = 40_000
DIGEST = hashlib.sha256(CONTENT).hexdigest()


@dataclass(frozen=True)
class Served:
    """A running server and its requests."""

    url: str
    log: Path

    def requests(self) -> list[tuple[int, int]]:
        lines = [line.split() for line in self.log.read_text().splitlines()] if self.log.exists() else []
        return [(int(start), int(end)) for start, end in lines]


@contextmanager
def serving(content: bytes, folder: Path) -> Iterator[Served]:
    (folder / "content").write_bytes(content)
    command = [sys.executable, str(SERVER), str(folder / "content"), str(folder / "requests")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            port = int(server.stdout.readline())
            yield Served(f"http://127.0.0.1:{port}/big.bin", folder / "requests")
        finally:
            server.kill()


def command(url: str, lake: Path, *options: object) -> list[str]:
    target = f"file://{lake}?durable=false"
    settings = ["--piece", PIECE, "--workers", 4, *options]
    return [sys.executable, str(EXAMPLE), url, target, *map(str, settings)]


def test_a_download_that_was_killed_midway_fetches_only_what_is_missing(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    with serving(CONTENT, tmp_path) as served:
        hold = tmp_path / "requests.hold"
        hold.write_text("40")  # it cannot end before it is killed
        first = subprocess.Popen(
            command(served.url, lake), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        while len(served.requests()) < 30:
            assert first.poll() is None, "it ended by itself"
            time.sleep(0.01)
        first.kill()
        first.wait()
        hold.unlink()

        volume = lode.Volume("big.bin", lake, len(CONTENT))
        gaps = volume.missing()
        assert 0 < sum(length for _, length in gaps) < len(CONTENT)

        asked = len(served.requests())
        output = tmp_path / "copy"
        again = subprocess.run(
            command(served.url, lake, "--sha256", DIGEST, "--output", output),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert again.returncode == 0, again.stderr
        assert f"3,000,000 bytes, SHA-256 {DIGEST}" in again.stdout
        assert " 100.0%" in again.stdout
        for start, end in served.requests()[asked:]:
            assert any(at <= start and end <= at + length for at, length in gaps), (
                f"[{start}, {end}) was there"
            )
    head = volume.latest()
    assert volume.read_at(head, 0, len(CONTENT), verify=True) == CONTENT
    assert head.metadata["url"] == served.url
    assert output.read_bytes() == CONTENT


def test_a_complete_download_is_only_verified_when_started_again(tmp_path: Path) -> None:
    with serving(CONTENT[:100_000], tmp_path) as served:
        subprocess.run(command(served.url, tmp_path / "lake"), check=True, capture_output=True, timeout=60)
        asked = len(served.requests())
        again = subprocess.run(
            command(served.url, tmp_path / "lake", "--sha256", "0" * 64),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert again.returncode == 1
        assert "has the SHA-256" in again.stderr
        assert len(served.requests()) == asked


def test_two_downloads_into_one_volume_complete_it_between_them(tmp_path: Path) -> None:
    with serving(CONTENT[:1_000_000], tmp_path) as served:
        both = [
            subprocess.Popen(
                command(served.url, tmp_path / "lake"),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for _ in range(2)
        ]
        outputs = [process.communicate(timeout=120) for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    digest = hashlib.sha256(CONTENT[:1_000_000]).hexdigest()
    assert all(f"SHA-256 {digest}" in out for out, _ in outputs)


def test_a_file_that_changed_on_the_server_is_not_mixed_with_what_was_fetched(tmp_path: Path) -> None:
    for folder, content in (("old", CONTENT[:50_000]), ("new", CONTENT[50_000:100_000])):
        (tmp_path / folder).mkdir()
        with serving(content, tmp_path / folder) as served:
            done = subprocess.run(
                command(served.url, tmp_path / "lake"),
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
    assert done.returncode == 1
    assert "has changed since this download began" in done.stderr


@pytest.mark.parametrize("text", ["0", "eight", "8XB", "-1"])
def test_a_piece_that_is_not_a_size_is_refused(text: str) -> None:
    refused = subprocess.run(
        [sys.executable, str(EXAMPLE), "http://127.0.0.1:9/x", "lake", f"--piece={text}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert refused.returncode == 2
    assert "is not a size such as 8MiB" in refused.stderr
