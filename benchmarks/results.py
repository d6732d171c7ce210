"""One JSON file for each part and size, so that a part can be measured again without losing the others."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

import msgspec

import lode
from benchmarks.table import PartResult

PARTS: Final = ("tables", "commit", "open", "blob", "ingest", "spark", "scaling", "lifecycle")
HOME: Final = Path(__file__).parent / "results"

_PACKAGES: Final = (
    "pyarrow",
    "deltalake",
    "pyiceberg",
    "pylance",
    "obstore",
    "moto",
    "grpcio",
    "pyspark",
)


def save(size: str, result: PartResult, home: Path = HOME) -> Path:
    """Keep it, in place of what was measured before."""
    path = home / size / f"{result.part}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(result), indent=1) + b"\n")
    return path


def load(size: str, home: Path = HOME) -> dict[str, PartResult]:
    """What has been measured in this size, by part."""
    paths = {part: home / size / f"{part}.json" for part in PARTS}
    return {
        part: msgspec.json.decode(path.read_bytes(), type=PartResult)
        for part, path in paths.items()
        if path.exists()
    }


def machine() -> str:
    python = platform.python_version()
    return f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, Python {python}"


def versions() -> dict[str, str]:
    found = {"lode": lode.__version__}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
