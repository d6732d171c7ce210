"""The table of contracts names tests, and each of them exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent
TABLE = (TESTS.parent / "docs" / "contracts.md").read_text(encoding="utf-8")
HEADS = ("| ---", "| requirement")
ROWS = [line for line in TABLE.splitlines() if line.startswith("| ") and not line.startswith(HEADS)]
NAMED = sorted(set(re.findall(r"`([\w/]+\.py)::(\w+)`", TABLE)))


@cache
def names_in(path: str) -> frozenset[str]:
    tree = ast.parse((TESTS / path).read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


@pytest.mark.parametrize("path", sorted({path for path, _ in NAMED}))
def test_every_test_the_table_names_exists(path: str) -> None:
    assert {name for file, name in NAMED if file == path} - names_in(path) == set()


def test_every_requirement_in_the_table_has_a_test() -> None:
    assert ROWS
    assert [row for row in ROWS if not re.search(r"`[\w/]+\.py::test_\w+`", row)] == []
