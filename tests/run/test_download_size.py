"""What ``./run`` says before it downloads."""

from __future__ import annotations

import platform
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import pytest
from scripts.download_size import announcement, file_of

if TYPE_CHECKING:
    from collections.abc import Iterator

PYTHON = f"cp{sys.version_info.major}{sys.version_info.minor}"
SYSTEM = {"Darwin": "macosx_11_0", "Windows": "win"}.get(platform.system(), "manylinux_2_17")
HERE = f"{SYSTEM}_{platform.machine().lower()}"
DRY = """Would create project environment at: .venv
Would download 2 packages
Would install 2 packages
 + a==1
 + b==2
"""


def wheel(tags: str, size: int = 0) -> dict[str, Any]:
    return {"url": f"https://x.example/a-1-{tags}.whl", **({"size": size} if size else {})}


def lock(*files: dict[str, Any]) -> dict[str, Any]:
    names = [("a", "1"), ("b", "2"), ("c", "3")]
    return {
        "package": [
            {"name": name, "version": version, "wheels": [file]}
            for (name, version), file in zip(names, files, strict=True)
        ]
    }


@pytest.mark.parametrize(
    "tags", ["py3-none-any", f"{PYTHON}-{PYTHON}-{HERE}", f"cp38-abi3-{HERE}", f"py3-none-{HERE}"]
)
def test_the_wheel_for_this_machine_is_counted(tags: str) -> None:
    others = [f"{PYTHON}-{PYTHON}-plan9_mips", f"cp27-cp27m-{HERE}", f"cp399-abi3-{HERE}"]
    package = {"wheels": [*map(wheel, others), wheel(tags)], "sdist": wheel("source")}
    assert file_of(package) == wheel(tags)


def test_a_package_without_a_wheel_for_this_machine_comes_as_source() -> None:
    package = {"wheels": [wheel("cp27-cp27m-plan9_mips")], "sdist": {"url": "a-1.tar.gz"}}
    assert file_of(package) == {"url": "a-1.tar.gz"}


def test_only_what_will_be_installed_is_counted() -> None:
    sized = lock(*(wheel("py3-none-any", size) for size in (30_000_000, 12_000_000, 5_000_000)))
    assert announcement(DRY, sized) == "2 packages to download, about 42 MB"
    assert announcement(DRY.replace("load 2", "load 1"), sized) == "1 package to download, at most 42 MB"
    assert announcement("Would make no changes\n", sized) is None


@pytest.fixture
def index() -> Iterator[str]:
    """An index that has one file, of 7 MB."""

    class Answer(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_response(200 if "a-1" in self.path else 404)
            self.send_header("Content-Length", "7000000")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_sizes_that_the_lock_file_lacks_are_asked_for(index: str) -> None:
    a, b = {"url": f"{index}/a-1-py3-none-any.whl"}, {"url": f"{index}/b-2-py3-none-any.whl"}
    other = wheel("py3-none-any", 1)
    assert announcement(DRY, lock(a, wheel("py3-none-any", 2_000_000), other)) == (
        "2 packages to download, about 9 MB"
    )
    assert announcement(DRY, lock(a, b, other)) == "2 packages to download, more than 7 MB"
    assert announcement(DRY, lock(b, b, other)) == "2 packages to download, of unknown size"
