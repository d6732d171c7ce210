"""What is in the sdist and the wheel, and what the package index shows of it."""

from __future__ import annotations

import re
import tarfile
import zipfile
from email import message_from_string
from pathlib import Path
from typing import TYPE_CHECKING

import lode
from docs.test_docs import anchors_of

if TYPE_CHECKING:
    from email.message import Message

    from package.conftest import Distribution

ROOT = Path(__file__).parents[2]
HOME = "https://github.com/lode-store/lode"
RAW = "https://raw.githubusercontent.com/lode-store/lode"
# Markdown links and images, reference definitions, and what HTML has.
TARGET = re.compile(r"""\]\(([^)\s]+)|^\[[^\]]+\]:\s*(\S+)|(?:href|src)=["']([^"']+)""", re.MULTILINE)
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def metadata_of(distribution: Distribution) -> Message:
    with zipfile.ZipFile(distribution.wheel) as wheel:
        (path,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        return message_from_string(wheel.read(path).decode())


def page_of(distribution: Distribution) -> str:
    return FENCED.sub("", str(metadata_of(distribution).get_payload()))


def targets_in(page: str) -> list[str]:
    return ["".join(found) for found in TARGET.findall(page)]


def test_the_wheel_has_both_packages_and_nothing_else(distribution: Distribution) -> None:
    tracked = {
        str(path.relative_to(ROOT / "src"))
        for path in (ROOT / "src").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with zipfile.ZipFile(distribution.wheel) as wheel:
        packed = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert packed == tracked
    assert {"lode/py.typed", "lode/ui/static/index.html", "pyspark_lode/__init__.py"} <= packed


def test_the_sdist_has_what_a_build_needs_and_no_more(distribution: Distribution) -> None:
    with tarfile.open(distribution.sdist) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert {name for name in names if not name.startswith("src/")} == {
        ".gitignore",
        "CHANGELOG.md",
        "LICENSE",
        "PKG-INFO",
        "README.md",
        "pyproject.toml",
    }


def test_the_licence_is_named_and_included(distribution: Distribution) -> None:
    metadata = metadata_of(distribution)
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["License-File"] == "LICENSE"
    with zipfile.ZipFile(distribution.wheel) as wheel:
        (path,) = (name for name in wheel.namelist() if name.endswith("/licenses/LICENSE"))
        assert wheel.read(path) == (ROOT / "LICENSE").read_bytes()


def test_the_extras_of_buckets_require_the_same(distribution: Distribution) -> None:
    required = metadata_of(distribution).get_all("Requires-Dist", [])
    of = {
        extra: [line.partition(";")[0] for line in required if f"extra == '{extra}'" in line]
        for extra in ("s3", "gcs", "azure")
    }
    assert of["s3"]
    assert of["s3"] == of["gcs"] == of["azure"]


def test_the_version_has_one_source(distribution: Distribution) -> None:
    assert metadata_of(distribution)["Version"] == lode.__version__


def test_every_address_of_the_project_begins_alike_and_leads_to_a_file(distribution: Distribution) -> None:
    urls = dict(line.split(", ", 1) for line in metadata_of(distribution).get_all("Project-URL", []))
    assert set(urls) == {"Homepage", "Documentation", "Source", "Changelog", "Issues"}
    for url in urls.values():
        assert url == HOME or url.startswith(f"{HOME}/")
        if "/blob/" in url:
            assert (ROOT / url.removeprefix(f"{HOME}/blob/main/")).is_file()


def test_no_link_and_no_image_on_the_index_page_is_relative(distribution: Distribution) -> None:
    targets = targets_in(page_of(distribution))
    assert targets
    assert [target for target in targets if not re.match(r"https://|#", target)] == []


def test_every_link_on_the_index_page_into_the_repository_leads_to_a_file_and_a_heading(
    distribution: Distribution,
) -> None:
    page = page_of(distribution)
    inside = [target for target in targets_in(page) if target.startswith((HOME, RAW, "#"))]
    assert inside
    for target in inside:
        path, _, anchor = re.sub(rf"^({HOME}/blob|{RAW})/v{lode.__version__}/", "", target).partition("#")
        found = ROOT / (path or "README.md")
        assert found.exists(), target
        assert not anchor or anchor in anchors_of(found), target


def test_the_index_page_says_all_that_the_readme_says(distribution: Distribution) -> None:
    readme = FENCED.sub("", (ROOT / "README.md").read_text())
    bare = re.compile(r"\]\([^)]*\)")
    assert bare.sub("]", page_of(distribution)).strip() == bare.sub("]", readme).strip()
