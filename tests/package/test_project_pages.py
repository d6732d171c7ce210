"""The pages for contributors name only what exists."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped, unused-ignore]  # has no types of its own

import lode
from docs.test_docs import ANCHOR, LINK, anchors_of

ROOT = Path(__file__).parents[2]
PAGES = ["CHANGELOG.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "SECURITY.md"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.mark.parametrize("name", PAGES)
def test_every_link_of_a_page_leads_to_a_file_and_a_heading(name: str) -> None:
    page = (ROOT / name).read_text()
    for target in LINK.findall(page):
        assert target.startswith("https://") or (ROOT / target).exists(), target
    for target, anchor in ANCHOR.findall(page):
        assert anchor in anchors_of(ROOT / (target or name)), f"{target}#{anchor}"


def test_every_path_that_contributors_are_sent_to_exists() -> None:
    paths = re.findall(r"`((?:src|tests|docs|\.github)/[\w./-]+)`", (ROOT / "CONTRIBUTING.md").read_text())
    assert len(paths) > 20
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_every_name_in_the_recipes_is_in_the_file_that_they_name() -> None:
    for path, name in {
        "src/lode/codec/protocol.py": "class WholeFileCodec",
        "src/lode/codec/components.py": "CODECS: Final",
        "src/lode/store/protocol.py": "class SupportsCompareAndSwap",
        "src/lode/store/open.py": "def open_store",
        "src/lode/cli/app.py": "_GROUPS",
        "tests/store/test_memory.py": "(StoreSuite)",
        "src/lode/__init__.py": "__version__ = ",
    }.items():
        assert name in (ROOT / path).read_text(), path


def test_the_changelog_has_the_version_and_what_is_not_released() -> None:
    page = (ROOT / "CHANGELOG.md").read_text()
    headings = re.findall(r"^## \[(.+?)\](?: - \d{4}-\d\d-\d\d)?$", page, re.MULTILINE)
    assert headings[0] == "Unreleased"
    assert lode.__version__ in headings
    assert re.findall(r"^\[(.+?)\]: https://", page, re.MULTILINE) == headings


def test_ci_runs_every_python_that_the_package_names() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    workflow: Any = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())
    assert workflow["jobs"]["linux"]["strategy"]["matrix"]["python"] == named
    assert project["requires-python"] == f">={named[0]}"


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_every_file_that_a_workflow_runs_exists(path: Path) -> None:
    workflow: Any = yaml.safe_load(path.read_text())
    steps = [step for job in workflow["jobs"].values() for step in job.get("steps", [])]
    words = [word for step in steps for word in step.get("run", "").split()]
    files = [word for word in words if word.startswith(("./", ".ci/", "tests/"))]
    assert [file for file in files if not (ROOT / file).exists()] == []
    called = [job["uses"] for job in workflow["jobs"].values() if "uses" in job]
    assert all((ROOT / file).is_file() for file in called)


def test_only_the_job_that_publishes_may_prove_who_it_is() -> None:
    workflow: Any = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())
    assert workflow["permissions"] == {"contents": "read"}
    trusted = [name for name, job in workflow["jobs"].items() if "id-token" in job.get("permissions", {})]
    assert trusted == ["publish"]
    assert set(workflow["jobs"]["publish"]["needs"]) == {"check", "build"}
