"""Download a large file in parallel ranges, and resume after any failure.

    python examples/parallel_download.py URL TARGET [--piece 8MiB] [--workers 8]

The ranges become blocks of a volume in TARGET, a directory or a store's URL. Connections may drop and this
program may be killed at any time: run it again, and it fetches only the missing ranges. At the end it
reads the whole file once, prints its SHA-256, and compares it with ``--sha256`` if given.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import shutil
import sys
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit
from urllib.request import Request, urlopen

import lode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# Number of retries of a round without progress, with growing pauses.
PATIENCE = 6
TIMEOUT = 30
UNITS = {"": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


@dataclass(frozen=True)
class Source:
    """A file on an HTTP server, as it was when we first asked."""

    url: str
    length: int
    etag: str | None

    @classmethod
    def ask(cls, url: str) -> Source:
        with urlopen(Request(url, method="HEAD"), timeout=TIMEOUT) as answer:
            if answer.headers.get("Accept-Ranges") != "bytes":
                raise SystemExit(f"{url} cannot be fetched in pieces: its server does not accept ranges")
            return cls(url, int(answer.headers["Content-Length"]), answer.headers.get("ETag"))

    def fetch(self, volume: lode.Volume, offset: int, length: int) -> lode.BlockRef:
        """Stream one piece into the volume; if the connection drops, what came before makes a block too."""
        headers = {"Range": f"bytes={offset}-{offset + length - 1}"}
        if self.etag:
            headers["If-Match"] = self.etag
        with urlopen(Request(self.url, headers=headers), timeout=TIMEOUT) as answer:
            if answer.status != 206:
                raise HTTPException(f"asked for a range, got status {answer.status}")
            return volume.stage_write_at(offset, answer)


def download(source: Source, volume: lode.Volume, *, piece: int, workers: int) -> None:
    """Fetch what is missing, round by round, until nothing is."""
    barren = 0
    with ThreadPoolExecutor(workers) as pool:
        while gaps := volume.missing():
            tasks = {pool.submit(source.fetch, volume, at, size) for at, size in cut(gaps, piece)}
            before = sum(size for _, size in gaps)
            while tasks:
                done, tasks = wait(tasks, return_when=FIRST_COMPLETED)
                commit(volume, source, [block for task in done if (block := outcome(task))])
            gained = before - sum(size for _, size in volume.missing())
            barren = 0 if gained else barren + 1
            if barren == PATIENCE:
                raise SystemExit("nothing comes any more: run this again later, it goes on from here")
            time.sleep(0.1 * (2**barren - 1))


def cut(gaps: Iterable[tuple[int, int]], piece: int) -> Iterator[tuple[int, int]]:
    for offset, length in gaps:
        for at in range(offset, offset + length, piece):
            yield at, min(piece, offset + length - at)


def outcome(task: Future[lode.BlockRef]) -> lode.BlockRef | None:
    """The block a task staged; a piece that failed stays missing and is fetched in the next round."""
    try:
        return task.result()
    except (OSError, HTTPException, lode.InvalidRangeError) as error:
        print(f"  {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        return None


def commit(volume: lode.Volume, source: Source, blocks: list[lode.BlockRef]) -> None:
    if not blocks:
        return
    try:
        snapshot = volume.commit(blocks, {"url": source.url, "etag": source.etag})
    except lode.OverlappingBlocksError:
        return  # another download into the same volume was faster; the next round sees its blocks
    share = snapshot.size_bytes / volume.total_length
    print(f"{share:7.1%}  {snapshot.size_bytes:,} bytes in {len(snapshot.blocks)} blocks", flush=True)


def refuse_another_file(source: Source, volume: lode.Volume) -> None:
    """Pieces of two versions of a file do not make a file."""
    try:
        begun = volume.latest().metadata
    except lode.NoSnapshotsError:
        return
    if begun.get("etag") != source.etag:
        raise SystemExit(f"{source.url} has changed since this download began: choose another target")


def sha256_of(volume: lode.Volume) -> str:
    with volume.open(volume.latest()) as whole:
        return hashlib.file_digest(whole, "sha256").hexdigest()


def size(text: str) -> int:
    """Read a size such as 8MiB, 500kB or 4096."""
    match = re.fullmatch(r"([1-9]\d*)\s*([A-Za-z]*)", text)
    if match is None or match[2] not in UNITS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 8MiB")
    return int(match[1]) * UNITS[match[2]]


def main() -> None:
    parser = argparse.ArgumentParser(description="Download a large file in parallel pieces into a volume.")
    parser.add_argument("url", help="what to download; its server must accept range requests")
    parser.add_argument("target", help="where the volume lies: a directory or a store's URL")
    parser.add_argument("--piece", type=size, default="8MiB", help="how much to fetch at once (default 8MiB)")
    parser.add_argument("--workers", type=int, default=8, help="how many pieces at a time (default 8)")
    parser.add_argument("--sha256", help="what the whole must hash to")
    parser.add_argument("--output", type=Path, help="also copy the whole to this file")
    options = parser.parse_args()

    source = Source.ask(options.url)
    name = unquote(PurePosixPath(urlsplit(options.url).path).name) or "download"
    volume = lode.Volume(name, options.target, source.length, checksum="xxh3-128")
    refuse_another_file(source, volume)
    download(source, volume, piece=options.piece, workers=options.workers)

    digest = sha256_of(volume)
    if options.sha256 not in (None, digest):
        raise SystemExit(f"the whole has the SHA-256 {digest}, not {options.sha256}")
    if options.output:
        with volume.open(volume.latest()) as whole, options.output.open("wb") as copy:
            shutil.copyfileobj(whole, copy, options.piece)
    print(f"{source.length:,} bytes, SHA-256 {digest}")


if __name__ == "__main__":
    main()
