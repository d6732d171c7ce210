"""YAML files end: aliases that stand for billions of values are refused, and usual ones are not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lode.errors import InvalidOptionError
from lode.pipeline import file
from lode.pipeline.cases import _read
from lode.pipeline.yaml_text import MAX_VALUES, load_yaml

if TYPE_CHECKING:
    from pathlib import Path

LAUGHS = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 60))
MERGES = "a0: &a0 {x: 1}\n" + "".join(f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}\n" for n in range(1, 60))


@pytest.mark.parametrize("text", [LAUGHS, MERGES])
def test_a_project_with_nested_aliases_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "lake.yaml"
    path.write_text(f"lake: here\nstore:\n  {text.replace(chr(10), chr(10) + '  ')}\n")
    with pytest.raises(InvalidOptionError, match=rf"lake.yaml: line \d+: .*more than {MAX_VALUES:,} values"):
        file.load(path)


def test_rows_of_a_test_with_nested_aliases_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "expected.yaml"
    path.write_text(LAUGHS)
    with pytest.raises(InvalidOptionError, match=r"expected.yaml: line \d+: .*aliases"):
        _read(path)


def test_an_alias_of_itself_is_refused() -> None:
    with pytest.raises(InvalidOptionError, match="line 1: an alias contains itself"):
        load_yaml("a: &a [*a]", "a test")


@pytest.mark.parametrize("text", ["[" * 5000 + "]" * 5000, "a: " * 3 + "{a: " * 5000 + "}" * 5000])
def test_a_file_that_is_nested_too_deep_is_refused(text: str) -> None:
    with pytest.raises(InvalidOptionError, match=r"nested more than 100 levels|not YAML"):
        load_yaml(text, "a test")


def test_an_alias_and_a_merge_are_read() -> None:
    text = "base: &base {a: 1, b: 2}\nother: {<<: *base, b: 3}\nlist: [*base, *base]\n"
    assert load_yaml(text, "a test") == {
        "base": {"a": 1, "b": 2},
        "other": {"a": 1, "b": 3},
        "list": [{"a": 1, "b": 2}] * 2,
    }


def test_an_empty_file_is_nothing() -> None:
    assert load_yaml("", "a test") is None
