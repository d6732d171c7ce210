"""Lode for Go itself: builds the driver in ``tests/support/go`` once and talks to it."""

from __future__ import annotations

import base64
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lode.testing.servers import tools_directory

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

SOURCES: Final = Path(__file__).with_name("go")
MISSING: Final = "Go was not found: install Go 1.25 or newer, and the tests run Lode for Go beside ours"
BUILD_SECONDS: Final = 540


def find_go() -> str | None:
    return shutil.which("go")


def driver() -> Path:
    """Return the driver, built from the sources as they are now; one process at a time."""
    go = find_go()
    if go is None:
        raise FileNotFoundError(MISSING)
    sources = sorted(path for path in SOURCES.iterdir() if path.suffix in (".go", ".mod", ".sum"))
    state = hashlib.sha256(b"\0".join(path.read_bytes() for path in sources)).hexdigest()
    folder = tools_directory() / "go"
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / f"driver-{state[:16]}"
    with (folder / "build.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            for stale in folder.glob("driver-*"):
                stale.unlink()
            _build(go, folder, program)
    return program


def _build(go: str, folder: Path, program: Path) -> None:
    unfinished = folder / "unfinished"
    # What Go downloads and notes stays in the project, unless the caller keeps it elsewhere.
    caches = {"GOMODCACHE": str(folder / "modules"), "GOCACHE": str(folder / "cache")}
    home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    settings = {"GOENV": os.environ.get("GOENV", str(home / "go/env")), "XDG_CONFIG_HOME": str(folder)}
    flags = ["-mod=readonly", "-modcacherw", "-trimpath", "-buildvcs=false"]
    built = subprocess.run(
        [go, "build", *flags, "-o", str(unfinished), "."],
        cwd=SOURCES,
        env={**caches, **os.environ, **settings, "GOFLAGS": "", "GOWORK": "off", "CGO_ENABLED": "0"},
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS,
        check=False,
    )
    if built.returncode:
        raise RuntimeError(f"the driver of Lode for Go could not be built: {built.stderr[-4000:]}")
    unfinished.rename(program)


class GoError(Exception):
    """An error that Lode for Go returned, and its kind as the driver names it."""

    def __init__(self, message: str, kind: str) -> None:
        super().__init__(message)
        self.kind = kind


class GoProcess:
    """A running driver. Handles stay open in it, with what Lode for Go remembers between calls."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._handles = 0

    def send(self, do: str, **arguments: Any) -> None:
        """Send a request without waiting for its answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **arguments}).encode() + b"\n")
        self._process.stdin.flush()

    def receive(self) -> Any:
        """The answer to the oldest request that has none."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise EOFError("the driver of Lode for Go has ended")
        answer = json.loads(line)
        if "error" in answer:
            raise GoError(answer["error"], answer["kind"])
        return answer["value"]

    def ask(self, do: str, **arguments: Any) -> Any:
        self.send(do, **arguments)
        return self.receive()

    def dataset(
        self,
        root: Path,
        id: str = "events",
        *,
        codec: str = "jsonl",
        keys: Sequence[str] = (),
        layout: str = "",
        fields: Mapping[str, str] | None = None,
        compressor: str = "",
        checksum: str = "",
        retries: int = 0,
    ) -> GoDataset:
        """Open a dataset. Columns of Parquet have Go's types: ``"int64"``, or ``"int64!"`` if required."""
        columns = [
            {"name": name, "type": kind.removesuffix("!"), "nullable": not kind.endswith("!")}
            for name, kind in (fields or {}).items()
        ]
        handle = self._open(
            "dataset",
            root,
            id=id,
            codec=codec,
            layout=layout or ("hive" if keys else "default"),
            keys=list(keys),
            fields=columns,
            compressor=compressor,
            checksum=checksum,
            retries=retries,
        )
        return GoDataset(self, handle, id)

    def volume(self, root: Path, id: str = "disk", *, length: int, checksum: str = "") -> GoVolume:
        return GoVolume(self, self._open("volume", root, id=id, length=length, checksum=checksum))

    def _open(self, do: str, root: Path, **arguments: Any) -> str:
        root.mkdir(parents=True, exist_ok=True)
        self._handles += 1
        handle = str(self._handles)
        self.ask(do, handle=handle, root=str(root), **arguments)
        return handle


class GoDataset:
    """A dataset that the driver has open."""

    def __init__(self, process: GoProcess, handle: str, id: str) -> None:
        self.process = process
        self._handle = handle
        self._id = id

    def _ask(self, do: str, **arguments: Any) -> Any:
        return self.process.ask(do, handle=self._handle, id=self._id, **arguments)

    def write(self, rows: Sequence[dict[str, Any]]) -> str:
        found: str = self._ask("write", rows=list(rows))
        return found

    def write_bytes(self, data: bytes) -> str:
        found: str = self._ask("write-bytes", data=base64.b64encode(data).decode())
        return found

    def read(self, snapshot_id: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._ask("read", snapshot=snapshot_id)
        return found

    def read_bytes(self, snapshot_id: str) -> bytes:
        (found,) = self._ask("read", snapshot=snapshot_id)
        return base64.b64decode(found)

    def latest(self) -> str:
        found: str = self._ask("latest")
        return found

    def snapshots(self) -> list[str]:
        found: list[str] = self._ask("snapshots")
        return found

    def manifest(self, snapshot_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self._ask("manifest", snapshot=snapshot_id)
        return found

    def partitions(self) -> list[str]:
        found: list[str] = self._ask("partitions")
        return found

    def manifests(self, partition: str = "") -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._ask("list", partition=partition)
        return found

    @contextmanager
    def watching(self, stop: Path) -> Iterator[dict[str, Any]]:
        """Call ``Latest`` in a loop. What it found is in the mapping after the block."""
        seen: dict[str, Any] = {}
        self.process.send("latest-until", handle=self._handle, id=self._id, until=str(stop))
        try:
            yield seen
        finally:
            stop.touch()
            seen.update(self.process.receive())

    @contextmanager
    def writing(self, count: int) -> Iterator[dict[str, Any]]:
        """Write rows ``{"go": n}`` one by one. What was acknowledged is in the mapping after the block."""
        done: dict[str, Any] = {}
        self.process.send("write-many", handle=self._handle, id=self._id, count=count)
        try:
            yield done
        finally:
            done.update(self.process.receive())


class GoVolume:
    """A volume that the driver has open."""

    def __init__(self, process: GoProcess, handle: str) -> None:
        self.process = process
        self._handle = handle

    def _ask(self, do: str, **arguments: Any) -> Any:
        return self.process.ask(do, handle=self._handle, **arguments)

    def commit(self, offset: int, data: bytes) -> str:
        found: str = self._ask("commit", offset=offset, data=base64.b64encode(data).decode())
        return found

    def read_at(self, snapshot_id: str, offset: int, size: int) -> bytes:
        return base64.b64decode(self._ask("read-at", snapshot=snapshot_id, offset=offset, size=size))

    def latest(self) -> str:
        found: str = self._ask("volume-latest")
        return found

    def snapshots(self) -> list[str]:
        found: list[str] = self._ask("volume-snapshots")
        return found

    @contextmanager
    def watching(self, stop: Path) -> Iterator[dict[str, Any]]:
        """Call ``Latest`` in a loop. What it found is in the mapping after the block."""
        seen: dict[str, Any] = {}
        self.process.send("latest-until", handle=self._handle, until=str(stop))
        try:
            yield seen
        finally:
            stop.touch()
            seen.update(self.process.receive())


@contextmanager
def running(program: str) -> Iterator[GoProcess]:
    """A driver that runs until the end of the block."""
    process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        yield GoProcess(process)
    finally:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        process.stdout.close()
        process.wait(10)
