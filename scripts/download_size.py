"""Says how much ``uv sync`` will download, from its dry run and the lock file.

uv sync --dry-run … 2>&1 | python scripts/download_size.py uv.lock

Runs before anything is installed, so it needs the standard library alone.
"""

from __future__ import annotations

import os
import platform
import re
import ssl
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, Final
from urllib.request import HTTPSHandler, Request, build_opener

_SECONDS: Final = 12.0


def announcement(dry_run: str, lock: dict[str, Any]) -> str | None:
    """One line for people; None if nothing is downloaded."""
    found = re.search(r"Would download (\d+) packages?", dry_run)
    if found is None:
        return None
    count = int(found[1])
    packages = f"{count} package{'' if count == 1 else 's'} to download"
    wanted = re.findall(r"^ [+~] (\S+)==(\S+)", dry_run, re.MULTILINE)
    files = [file_of(package) for package in lock["package"] if _key(package) in wanted]
    size, complete = total([file for file in files if file is not None])
    # The dry run does not say which packages the cache already has.
    cached = count < len(wanted)
    if not size or (cached and not complete):
        return f"{packages}, of unknown size"
    about = "at most" if cached else "about" if complete else "more than"
    return f"{packages}, {about} {size / 1e6:,.0f} MB"


def file_of(package: dict[str, Any]) -> dict[str, Any] | None:
    """The file of a locked package for this machine: a wheel, else the source."""
    wheels = [wheel for wheel in package.get("wheels", ()) if _fits(wheel["url"])]
    # The wheel for exactly this Python stands above one for several.
    exact = f"-cp{sys.version_info.major}{sys.version_info.minor}-"
    chosen: dict[str, Any] | None = max(wheels, key=lambda wheel: exact in wheel["url"], default=None)
    return chosen or package.get("sdist")


def total(files: list[dict[str, Any]]) -> tuple[int, bool]:
    """The sum of the sizes, and whether it has all of them.

    Some indexes give no sizes to the lock file; then the one who has the file is asked.
    """
    opener = build_opener(HTTPSHandler(context=ssl.create_default_context()))

    def ask(url: str) -> int:
        with opener.open(Request(url, method="HEAD"), timeout=_SECONDS) as answer:
            return int(answer.headers["Content-Length"])

    # Wheels for every machine are small: if time runs out, it is these that are missing.
    unknown = sorted(
        (file["url"] for file in files if "size" not in file), key=lambda url: url.endswith("-any.whl")
    )
    pool = ThreadPoolExecutor(32)
    asked = [pool.submit(ask, url) for url in unknown]
    done, late = wait(asked, _SECONDS)
    pool.shutdown(wait=False, cancel_futures=True)
    answers = [future.result() for future in done if future.exception() is None]
    known = sum(file.get("size", 0) for file in files)
    return known + sum(answers), not late and len(answers) == len(done)


def _key(package: dict[str, Any]) -> tuple[str, str]:
    return package["name"], package.get("version", "")


def _fits(url: str) -> bool:
    python, abi, system = url.rpartition("/")[2].removesuffix(".whl").split("-")[-3:]
    minor = sys.version_info.minor
    limit = re.fullmatch(r"cp3(\d+)", python)
    runs = "py3" in python or (f"cp3{minor}" in python.split(".") and not abi.endswith("t"))
    runs = runs or (abi == "abi3" and limit is not None and int(limit[1]) <= minor)
    here = {"Darwin": "macosx", "Windows": "win"}.get(platform.system(), "manylinux")
    machine = platform.machine().lower()
    return runs and (system == "any" or (here in system and (machine in system or "universal2" in system)))


if __name__ == "__main__":
    line = announcement(sys.stdin.read(), tomllib.loads(Path(sys.argv[1]).read_text()))
    if line is not None:
        print(line, flush=True)
    os._exit(0)  # without waiting for answers that are late
