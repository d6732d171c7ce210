"""Every block in the docs runs, parses or has a reason why not; every link leads somewhere."""

from __future__ import annotations

import configparser
import json
import re
import subprocess
import sys
import tomllib
from typing import TYPE_CHECKING

import pytest
import yaml  # type: ignore[import-untyped, unused-ignore]  # has no types of its own

from support.docs.pages import (
    FOLLOWED_PAGES,
    PAGES,
    ROOT,
    SPARK_PAGES,
    Block,
    blocks_of,
    name_of,
    run_page,
    without_blocks,
)
from support.ingest.certificates import Authority

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")
ANCHOR = re.compile(r"\]\(([^)#:]*)#([^)]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
FLAG = re.compile(r"(?<= )--[a-z][a-z-]*")
RUN_ELSEWHERE = {*(f"docs/{page}" for page in SPARK_PAGES), *FOLLOWED_PAGES}
BLOCKS = [block for page in PAGES for block in blocks_of(page)]

PARSERS: dict[str, Callable[[str], object]] = {
    "yaml": yaml.safe_load,
    "json": json.loads,
    "toml": tomllib.loads,
    "ini": lambda text: configparser.ConfigParser().read_string(text),
}

# Blocks that no test runs, by their page and the beginning of their first line, and why.
NOT_RUN = {
    "docs/design/architecture.md: open ": "a drawing",
    "docs/design/filters.md: tokens.py": "a drawing",
    "docs/design/writing.md: codec/records.py": "a drawing",
    "docs/guides/object-stores.md: s3://bucket/lake: safe": "output",
    "docs/guides/operating.md: lode serve": "needs a bucket and certificates; its flags are checked here",
    "docs/guides/pipelines.md: lode spark validate": "needs a bucket; cli.md runs them on a disk",
    "docs/guides/pipelines.md: tests/silver": "files",
    "docs/guides/testing-your-writer.md: pip install": "installs",
    "docs/reference/cli.md: name    kind": "output",
    "docs/reference/cli.md: table            stream": "output",
    "docs/reference/cli.md: ● 2": "output",
    "docs/ingest.md: DECLARE id": "a script for the server, as those of tests/ingest/jobs/test_routines.py",
    "docs/reference/cli.md: dataset         visits": "output",
    "docs/reference/cli.md: visits: 2 snapshots": "output",
    "docs/reference/cli.md: visits: 3 snapshots": "output",
    "docs/reference/cli.md: visits: snapshot": "output",
    "docs/reference/cli.md: orders: changed": "output",
    "docs/reference/cli.md: lode     floor": "output",
    "docs/understanding/commits.md: │ a": "the output of the block before it; a drawing",
    "docs/understanding/model.md: a store": "a drawing",
}


def runs(block: Block) -> bool:
    """Whether a test runs or parses the block."""
    if block.language == "python" or block.language in PARSERS or block.language == "{eval-rst}":
        return True  # the reference in reStructuredText is built by test_site.py
    followed = {*FOLLOWED_PAGES, "docs/reference/cli.md"}
    return block.language == "sh" and block.page in followed


def test_every_block_runs_or_has_a_reason() -> None:
    idle = [block.name for block in BLOCKS if not runs(block)]
    assert [name for name in idle if not name.startswith(tuple(NOT_RUN))] == []
    assert [reason for reason in NOT_RUN if not any(name.startswith(reason) for name in idle)] == []


def test_every_test_named_in_a_reason_exists() -> None:
    for path in re.findall(r"tests/[\w/]+(?:\.py)?", " ".join(NOT_RUN.values())):
        assert (ROOT / path).exists(), path


@pytest.mark.parametrize(
    "page",
    [
        page
        for page in PAGES
        if name_of(page) not in RUN_ELSEWHERE and any(block.language == "python" for block in blocks_of(page))
    ],
    ids=name_of,
)
def test_the_code_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Authority(tmp_path, "ca")  # a page on TLS reads ca.pem
    run_page(page)


def test_blocks_of_data_parse() -> None:
    parsed = [PARSERS[block.language](block.text) for block in BLOCKS if block.language in PARSERS]
    assert len(parsed) > 3


def test_a_server_has_every_flag_that_a_page_gives_it() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "lode.cli", "serve", "--help"], capture_output=True, text=True, check=True
    ).stdout
    commands = [block.text for block in BLOCKS if "lode serve --root" in block.text]
    flags = {
        flag
        for text in commands
        for line in text.splitlines()
        for flag in FLAG.findall(f" {line.partition('#')[0]}")
    }
    assert {"--root", "--tls-cert"} <= flags
    assert [flag for flag in sorted(flags) if flag not in shown] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_links_of_a_page_exist(page: Path) -> None:
    for target in LINK.findall(page.read_text()):
        if not target.startswith(("http://", "https://")):
            assert (page.parent / target).exists(), f"{name_of(page)} links to {target}"


def anchors_of(page: Path) -> set[str]:
    """The names that a code host gives to the headings of a page."""
    headings = HEADING.findall(without_blocks(page))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_anchors_of_a_page_exist(page: Path) -> None:
    for target, anchor in ANCHOR.findall(page.read_text()):
        found = page.parent / target if target else page
        assert anchor in anchors_of(found), f"{name_of(page)} links to {target}#{anchor}"
