"""The library and the command line without any extra."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import lode

ds = lode.Dataset.create("visits", "lake", schema={"day": "string!", "n": "int64"}, partition_by=["day"])
ds.write([{"day": "mon", "n": 3}, {"day": "tue", "n": 5}])
assert ds.scan(where="n > 3").read_all().to_pylist() == [{"day": "tue", "n": 5}]
assert lode.verify(ds).ok


def command(*words: str) -> str:
    done = subprocess.run(
        [Path(sys.executable).with_name("lode"), *words], capture_output=True, text=True, check=True
    )
    assert done.stderr == "", done.stderr
    return done.stdout


Path("x.csv").write_text("day,n\nwed,7\n")
command("write", "visits", "x.csv", "--root", "lake")
assert '"n":7' in command("cat", "visits", "--root", "lake")
assert command("ls", "--names", "--root", "lake").split() == ["visits"]
assert command("ls", "--streams", "--root", "lake") is not None
assert command("--version") == f"lode {lode.__version__}\n"
command("verify", "visits", "--root", "lake")
# Help needs no extra.
for name in ("serve", "ui", "demo", "sql", "spark"):
    command(name, "--help")
