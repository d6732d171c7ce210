"""Runs the shell blocks of a page; plain ``lode`` lines in this one process, so that Spark starts once."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from lode.cli import main

BLOCK = re.compile(r"^```(sh|yaml)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"# exit code (\d+)$")
SHELL = re.compile(r"[|<>]")


def run_page(page: Path) -> int:
    """Run all of it and return how many times ``lode`` was called."""
    blocks = BLOCK.findall(page.read_text())
    for kind, text in blocks:
        if kind == "yaml":
            file = Path(text.split("\n", 1)[0].removeprefix("# "))
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
    lines = [line for kind, text in blocks if kind == "sh" for line in text.splitlines()]
    return sum(run_line(line) for line in lines)


def run_line(line: str) -> int:
    if line.startswith("export "):
        name, _, value = line.removeprefix("export ").partition("=")
        os.environ[name] = value
        return 0
    expected = int(found[1]) if (found := CODE.search(line)) else 0
    words = shlex.split(line, comments=True)
    quoted = re.sub(r"\"[^\"]*\"|'[^']*'", "", line)
    if words[0] == "lode" and not SHELL.search(quoted):
        code = main(words[1:])
    else:
        code = subprocess.run(["bash", "-o", "pipefail", "-c", line], check=False).returncode
    if code != expected:
        raise SystemExit(f"{line}\nended with {code}, not with {expected}")
    return int("lode" in words)


if __name__ == "__main__":
    print(run_page(Path(sys.argv[1])))
