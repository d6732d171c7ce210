"""The reference is complete: every public name, error and metric has its line; every test named exists."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import lode
import lode.spark
from lode import errors
from lode.filter import syntax, tokens
from lode.filter.functions import FUNCTIONS, MAX_PATTERN_CHARACTERS
from lode.ingest.core.metrics import Metrics
from lode.spark import jobs
from lode.testing import explore, store_suite

TESTS = Path(__file__).parents[1]
DOCS = TESTS.parent / "docs"
API = (DOCS / "reference" / "api.md").read_text()
ERRORS = (DOCS / "reference" / "errors.md").read_text()
CLI = (DOCS / "reference" / "cli.md").read_text()
FILTERS = (DOCS / "reference" / "filters.md").read_text()
METRICS = (DOCS / "reference" / "metrics.md").read_text()
GUARANTEES = (DOCS / "understanding" / "guarantees.md").read_text()
WITH_GO = (DOCS / "understanding" / "with-go.md").read_text()
ERROR_CLASSES = [
    kind for kind in vars(errors).values() if isinstance(kind, type) and kind.__module__ == errors.__name__
]


@pytest.mark.parametrize(
    "name",
    [name for name in lode.__all__ if getattr(lode, name) not in ERROR_CLASSES or name == "LodeError"],
)
def test_every_public_name_has_its_line(name: str) -> None:
    assert re.search(rf"`lode\.{name}\b", API)


@pytest.mark.parametrize(
    "name",
    [
        *(f"lode.spark.{name}" for name in lode.spark.__all__),
        *(f"lode.spark.jobs.{name}" for name in jobs.__all__),
    ],
)
def test_every_public_name_of_spark_has_its_line(name: str) -> None:
    assert re.search(rf"`{re.escape(name)}\b", API)


def test_every_name_on_the_page_exists() -> None:
    for dotted in re.findall(r"`(lode(?:\.\w+)+)", API):
        module, _, name = dotted.rpartition(".")
        try:
            found = hasattr(importlib.import_module(module), name)
        except ModuleNotFoundError:
            found = False
        if not found:
            importlib.import_module(dotted)


def test_the_names_for_tests_have_their_line() -> None:
    for name in ("explore", "Scenario", "Violation", "replay"):
        assert name in explore.__all__
        assert f"`lode.testing.explore.{name}`" in API
    for name in store_suite.__all__:
        assert f"`lode.testing.store_suite.{name}`" in API


def test_the_page_on_filters_has_every_function_and_limit() -> None:
    for name in FUNCTIONS:
        assert re.search(rf"`{name}\b", FILTERS), name
    limits = (
        syntax.MAX_CHARACTERS,
        tokens.MAX_TOKENS,
        syntax.MAX_CONDITIONS,
        syntax.MAX_VALUES,
        syntax.MAX_BRACKETS,
        MAX_PATTERN_CHARACTERS,
    )
    assert re.findall(r"^\| [a-z ]+ \| ([0-9,]+) \|$", FILTERS, re.MULTILINE) == [
        f"{limit:,}" for limit in limits
    ]


@pytest.mark.parametrize("kind", ERROR_CLASSES, ids=lambda kind: kind.__name__)
def test_every_error_has_its_line(kind: type[lode.LodeError]) -> None:
    if kind is lode.LodeError:
        return
    assert re.search(rf"^\| `{kind.__name__}`", ERRORS, re.MULTILINE)


@pytest.mark.parametrize("kind", [kind for kind in ERROR_CLASSES if issubclass(kind, lode.CommitError)])
def test_every_commit_error_lists_whether_it_landed(kind: type[lode.CommitError]) -> None:
    if kind is lode.CommitError:
        return
    assert f"| `{kind.__name__}` | `{kind.landed}` |" in ERRORS


def test_every_command_has_its_part() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "lode.cli", "--help"], capture_output=True, text=True, check=True
    ).stdout
    groups = shown.partition("\nLook:")[2].partition("\n\n  Exit codes")[0]
    commands = re.findall(r"^  (\w+) ", groups, re.MULTILINE)
    assert {"ls", "serve"} <= set(commands)
    for name in commands:
        assert f"\n## {name}\n" in CLI, name


def test_every_metric_has_its_line() -> None:
    exposed = set(re.findall(r"^# TYPE (\w+) (\w+)$", Metrics().text().decode(), re.MULTILINE))
    named = {(name, kind) for name, kind in exposed if not name.endswith("_created")}
    listed = set(re.findall(r"^\| `(lode_\w+)` \| (\w+) \|", METRICS, re.MULTILINE))
    assert listed == named


def test_every_test_of_a_guarantee_exists() -> None:
    named = set(re.findall(r"`([\w/]+\.py)::(\w+)`", GUARANTEES + WITH_GO))
    assert named
    for path in {path for path, _ in named}:
        found = set(re.findall(r"^ *def (\w+)\(", (TESTS / path).read_text(), re.MULTILINE))
        assert {name for file, name in named if file == path} <= found, path


def test_every_guarantee_names_a_test() -> None:
    rows = [line for line in GUARANTEES.splitlines() if line.startswith("| ") and "---" not in line]
    heads = ("| you may rely on |", "| is refused |")
    assert [row for row in rows if not row.startswith(heads) and "::test_" not in row] == []


GUIDED = [
    page
    for page in sorted(DOCS.rglob("*.md"))
    if page.parent.name in ("guides", "understanding", "reference", "python", "coming-from")
]
STARTED = [DOCS / name for name in ("index.md", "README.md", "start.md")]


@pytest.mark.parametrize("page", [*STARTED, *GUIDED], ids=lambda page: f"{page.parent.name}-{page.stem}")
def test_a_page_begins_with_its_purpose_and_ends_with_next_pages(page: Path) -> None:
    title, purpose, *_, last = page.read_text().strip().split("\n\n")
    assert title.startswith("# ")
    assert purpose.startswith("This ")
    assert last.startswith("**Next:**")
