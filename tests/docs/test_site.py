"""The site builds without a warning, loads nothing from elsewhere, and every page of it can be found."""

from __future__ import annotations

import importlib
import inspect
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from types import FunctionType
from typing import TYPE_CHECKING
from urllib.parse import unquote, urldefrag

import pytest

import lode
import lode.spark
from lode.spark import jobs
from lode.testing import explore, store_suite
from support.docs.pages import DOCS, name_of

if TYPE_CHECKING:
    from pathlib import Path

# One worker builds the site, before another could take some of these tests from it.
pytestmark = pytest.mark.slow

# What a browser loads by itself, by tag and attribute.
LOADED = {("script", "src"), ("link", "href"), ("img", "src"), ("source", "src"), ("iframe", "src")}
EXTERNAL = re.compile(r"^(?:https?:)?//")
IMPORTED = re.compile(r"@import\s+[\"']?|url\(\s*[\"']?((?:https?:)?//[^\"')]+)")
# Pages that the site adds, or that have no row of their own in the overview.
NOT_LISTED = {"index.md", "README.md", "changelog.md"}


@dataclass
class Page(HTMLParser):
    """What a page of the site loads, links to, has as anchors, and shows in its navigation."""

    loaded: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    navigation: list[str] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)
    _depth: int = 0

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "div":
            inside = self._depth or "sidebar-tree" in given.get("class", "").split()
            self._depth += 1 if inside else 0
        if "id" in given:
            self.ids.add(given["id"])
        self.loaded += [value for name, value in given.items() if (tag, name) in LOADED]
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
            if self._depth:
                self.navigation.append(given["href"])

    def handle_endtag(self, tag: str) -> None:
        if tag == "div" and self._depth:
            self._depth -= 1


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("docs") / "site"
    ended = subprocess.run(
        [sys.executable, str(DOCS / "build.py"), str(built)],
        # No proxy, no network: every connection of the build would fail.
        env={**os.environ, "http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-3000:]
    return built


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    found: dict[Path, Page] = {}
    for path in site.rglob("*.html"):
        found[path] = Page()
        found[path].feed(path.read_text())
    return found


def test_every_page_is_in_the_navigation(site: Path, pages: dict[Path, Page]) -> None:
    start = site / "index.html"
    shown = {(site / urldefrag(href)[0]).resolve() for href in pages[start].navigation}
    written = {site / page.relative_to(DOCS).with_suffix(".html") for page in DOCS.rglob("*.md")}
    assert written - shown == {start}


def test_no_page_loads_external_resources(site: Path, pages: dict[Path, Page]) -> None:
    assert {url for page in pages.values() for url in page.loaded if EXTERNAL.match(url)} == set()
    for style in site.rglob("*.css"):
        assert [url for url in IMPORTED.findall(style.read_text()) if url] == [], style


def test_every_link_and_anchor_within_the_site_works(site: Path, pages: dict[Path, Page]) -> None:
    broken = []
    for path, page in pages.items():
        for href in page.links:
            if re.match(r"[a-z]+:|//", href):
                continue
            target, anchor = urldefrag(unquote(href))
            found = (path.parent / target).resolve() if target else path
            if not found.exists() or (anchor and found in pages and anchor not in pages[found].ids):
                broken.append(f"{path.relative_to(site)} → {href}")
    assert broken == []


def test_the_search_index_has_the_pages_and_the_reference(site: Path) -> None:
    index = (site / "searchindex.js").read_text()
    assert "guides/concurrent-writers" in index
    assert "SnapshotConflictError" in index


NAMES = [
    *(f"lode.{name}" for name in lode.__all__ if name != "__version__"),
    *(f"lode.spark.{name}" for name in lode.spark.__all__),
    *(f"lode.spark.jobs.{name}" for name in jobs.__all__),
    *(f"lode.testing.explore.{name}" for name in explore.__all__),
    *(f"lode.testing.store_suite.{name}" for name in store_suite.__all__),
]


def test_every_exported_name_is_in_the_reference(site: Path, pages: dict[Path, Page]) -> None:
    reference = site / "reference" / "python"
    described = {name for path, page in pages.items() if path.parent == reference for name in page.ids}
    assert [name for name in NAMES if name not in described] == []


def value_of(name: str) -> object:
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def functions_of(name: str) -> dict[str, object]:
    """The function of that name, or the public methods and properties of the class."""
    value = value_of(name)
    if not inspect.isclass(value):
        return {name: value} if inspect.isroutine(value) else {}
    return {
        f"{name}.{member}": found
        for member, found in inspect.getmembers_static(value)
        if not member.startswith("_")
        and isinstance(found, property | staticmethod | classmethod | FunctionType)
        and (getattr(found, "__module__", None) or "lode.").startswith("lode.")
    }


@pytest.mark.parametrize(
    "name", [name for name in NAMES if inspect.isclass(value_of(name)) or inspect.isroutine(value_of(name))]
)
def test_every_exported_name_has_a_docstring(name: str) -> None:
    value = value_of(name)
    # A struct or dataclass without a docstring shows one that is made from its fields.
    shown = value.__dict__.get("__doc__") if inspect.isclass(value) else inspect.getdoc(value)
    assert shown
    assert not shown.startswith(f"{name.rpartition('.')[2]}(")


# The methods of these are those of a protocol, which describes them; or they are tests.
DESCRIBED_ELSEWHERE = re.compile(r"Layout$|JSONL$|ArrowIPC$|Parquet$|Tests$|StoreSuite$")


@pytest.mark.parametrize("name", [name for name in NAMES if not DESCRIBED_ELSEWHERE.search(name)])
def test_every_public_method_has_a_docstring(name: str) -> None:
    assert [each for each, found in functions_of(name).items() if not inspect.getdoc(found)] == []


@pytest.mark.parametrize("name", [name for name in NAMES if inspect.isroutine(value_of(name))])
def test_the_docstring_of_a_function_has_every_argument(name: str) -> None:
    function = value_of(name)
    assert callable(function)
    arguments = (inspect.getdoc(function) or "").partition("Args:\n")[2]
    described = set(re.findall(r"^    (\w+):", arguments, re.MULTILINE))
    assert set(inspect.signature(function).parameters) <= described


def test_the_overview_lists_every_page() -> None:
    listed = set(re.findall(r"\]\(([\w/-]+\.md)\)", (DOCS / "README.md").read_text()))
    written = {
        str(page.relative_to(DOCS))
        for page in DOCS.rglob("*.md")
        if page.parent != DOCS / "reference" / "python"
    }
    assert written - listed == NOT_LISTED - listed, name_of(DOCS / "README.md")


def test_the_overview_of_the_reference_lists_every_generated_page() -> None:
    overview = (DOCS / "reference" / "api.md").read_text()
    for page in DOCS.glob("reference/python/*.md"):
        assert f"](python/{page.name})" in overview
