"""``python -m bench [part …] [--quick] [--json FILE]``, and ``python -m bench report FILE``."""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import sys
import time
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from bench.options import Options
from bench.report import REPORT, render
from bench.table import PartResult, Run, Table, markdown

if TYPE_CHECKING:
    from collections.abc import Callable

PARTS = ("commits", "contention", "contention_s3", "opening", "streams", "bulk", "spark", "ingest")
_PACKAGES = ("lode", "pyarrow", "deltalake", "pyiceberg", "pylance", "obstore", "moto", "pyspark")


def main() -> None:
    arguments = _parser().parse_args()
    if arguments.parts[:1] == ["report"]:
        _report(arguments.parts[1:])
        return
    unknown = [part for part in arguments.parts if part not in PARTS]
    if unknown:
        sys.exit(f"no part {unknown[0]!r}: there are {', '.join(PARTS)}, and report FILE")
    options = Options(arguments.quick, tuple(arguments.only), arguments.directory)
    started = datetime.now(UTC)
    done: list[PartResult] = []
    for part in arguments.parts or PARTS:
        done.append(_run(part, options))
        if arguments.json:
            run = Run(_command(), started.isoformat(timespec="seconds"), _machine(), _versions(), done)
            Path(arguments.json).write_bytes(msgspec.json.format(msgspec.json.encode(run), indent=1))


def _run(part: str, options: Options) -> PartResult:
    measure: Callable[[Options], list[Table]] = importlib.import_module(f"bench.{part}").run
    print(f"## {part}\n", flush=True)
    began = time.monotonic()
    tables = measure(options)
    for table in tables:
        print(markdown(table), end="\n\n", flush=True)
    return PartResult(part, tables, time.monotonic() - began)


def _report(files: list[str]) -> None:
    if not files:
        sys.exit("report needs the FILE that --json wrote; of several, a later one's parts win")
    runs = [msgspec.json.decode(Path(file).read_bytes(), type=Run) for file in files]
    REPORT.write_text(render(runs))
    print(f"wrote {REPORT}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("parts", nargs="*", help=f"{', '.join(PARTS)} (default: all), or: report FILE")
    parser.add_argument("--quick", action="store_true", help="smaller sizes")
    parser.add_argument("--json", metavar="FILE", help="also write the numbers here")
    parser.add_argument("--only", action="append", default=[], help="contenders whose name contains this")
    parser.add_argument("--directory", help="where to write data (default: the temporary directory)")
    return parser


def _command() -> str:
    return " ".join(["python -m bench", *sys.argv[1:]])


def _machine() -> str:
    python = platform.python_version()
    return f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, Python {python}"


def _versions() -> dict[str, str]:
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


if __name__ == "__main__":
    main()
