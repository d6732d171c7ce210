"""``lode sql``."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import lode

lode.Dataset.create("visits", "lake", schema={"n": "int64"}).write([{"n": 1}, {"n": 2}])
query = [
    str(Path(sys.executable).with_name("lode")),
    "sql",
    "SELECT sum(n) AS n FROM visits",
    "--root",
    "lake",
]
done = subprocess.run(query, capture_output=True, text=True, check=True)
assert json.loads(done.stdout) == {"n": 3}, done.stdout
