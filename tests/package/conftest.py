"""The distribution as users get it: built from the tree once, installed into environments of their own.

Packages come from uv's cache by hard link, so an environment takes a second or two. Workers of one test run
share what is built, each part under a lock.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).parents[2]
FEATURES = Path(__file__).parent / "features"


def find_uv() -> str:
    """The uv that ``./run`` uses: ``$UV``, the one on PATH, or the one in ``.tools``."""
    found = os.environ.get("UV") or shutil.which("uv") or shutil.which(ROOT / ".tools" / "bin" / "uv")
    if found is None:
        pytest.fail("there is no uv to build and install with: run ./run test, or set UV to its path")
    return found


def run(
    command: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
    timeout: float = 600,
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env=clean_environment() | (env or {}),
        timeout=timeout,
    )


def clean_environment() -> dict[str, str]:
    """The environment without what leads Python, uv or Lode to something outside of the one under test."""
    leading = ("PYTHON", "UV_PYTHON", "UV_PROJECT", "VIRTUAL_ENV", "LODE_", "PYTEST_", "COV_")
    return {name: value for name, value in os.environ.items() if not name.startswith(leading)}


def checked(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, f"{done.args} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@dataclass(frozen=True)
class Distribution:
    wheel: Path
    sdist: Path


@dataclass(frozen=True)
class Installed:
    """An environment with the wheel, some of its extras and nothing else."""

    folder: Path

    def command(self, name: str) -> Path:
        return self.folder / "bin" / name

    @property
    def python(self) -> Path:
        return self.command("python")

    def feature(self, name: str, *arguments: str, cwd: Path) -> None:
        """Run the script that uses a feature."""
        checked(run([self.python, FEATURES / f"{name}.py", *arguments], cwd=cwd))


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a shared folder, which needs not exist."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def once(folder: Path) -> Iterator[bool]:
    """Hold the lock of a shared folder; True for the first, which has to fill it."""
    with locked(folder):
        done = folder.with_name(f"{folder.name}.done")
        yield not done.exists()
        done.touch()


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[Path]:
    """A folder for this test run, the same for all of its workers.

    It is on the disk, where uv can link to its cache. The last who uses it removes it.
    """
    base = tmp_path_factory.getbasetemp()
    link = (base if worker_id == "master" else base.parent) / "package"
    with link.with_name("package.used").open("w") as used:
        with locked(link):
            if not link.is_symlink():
                link.symlink_to(tempfile.mkdtemp(prefix="lode-package-"))
            fcntl.flock(used, fcntl.LOCK_SH)
        yield link.resolve()
        with locked(link), suppress(BlockingIOError):
            fcntl.flock(used, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(link.resolve())
            link.unlink()


@pytest.fixture(scope="session")
def distribution(shared: Path) -> Distribution:
    """The sdist of the tree, and the wheel that is built from that sdist."""
    folder = shared / "dist"
    with once(folder) as is_first:
        if is_first:
            checked(run([find_uv(), "build", "--quiet", "--out-dir", folder, ROOT]))
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return Distribution(wheel, sdist)


class Environments:
    """Environments by their extras, each made when it is first asked for."""

    def __init__(self, shared: Path, distribution: Distribution) -> None:
        self._shared = shared
        self._wheel = distribution.wheel

    def __call__(self, *extras: str) -> Installed:
        installed = Installed(self._shared / ("-".join(extras) or "base"))
        with once(installed.folder) as is_first:
            if is_first:
                self._fill(installed, extras)
        return installed

    def _fill(self, installed: Installed, extras: tuple[str, ...]) -> None:
        uv = find_uv()
        # pytest may run on a Python in an environment; what is made here stands on the Python below it.
        checked(run([uv, "venv", "--quiet", "--python", sys.base_prefix, installed.folder]))
        chosen = [word for extra in extras for word in ("--extra", extra)]
        # The versions of the lock file: those that the tests have installed, and that the cache has.
        command = [uv, "sync", "--quiet", "--frozen", "--no-dev", "--no-install-project", *chosen]
        place = {"UV_PROJECT_ENVIRONMENT": str(installed.folder)}
        checked(run([*command, "--project", ROOT], env=place))
        # Without an index: what the wheel's own metadata requires has to be there already.
        named = f"lode-store[{','.join(extras)}]" if extras else "lode-store"
        wheel = f"{named} @ {self._wheel.as_uri()}"
        checked(run([uv, "pip", "install", "--quiet", "--no-index", "--python", installed.python, wheel]))


@pytest.fixture(scope="session")
def environments(shared: Path, distribution: Distribution) -> Environments:
    return Environments(shared, distribution)
