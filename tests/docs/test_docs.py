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
import yaml

from tests.docs.pages import (
    DOCS,
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

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")
ANCHOR = re.compile(r"\]\(([^)#:]*)#([^)]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
FLAG = re.compile(r"(?<= )--[a-z][a-z-]*")
RUN_ELSEWHERE = {f"docs/{page}" for page in (*SPARK_PAGES, *FOLLOWED_PAGES)}
BLOCKS = [block for page in PAGES for block in blocks_of(page)]

PARSERS: dict[str, Callable[[str], object]] = {
    "yaml": yaml.safe_load,
    "json": json.loads,
    "toml": tomllib.loads,
    "ini": lambda text: configparser.ConfigParser().read_string(text),
}

# Blocks that do not run, by their page and first line. Drawings and output have nothing to run.
NOT_RUN = {
    "README.md: ./run demo     # all three on this machine, with a kill -9 in the middle: under a minute": (
        "a minute of servers, Spark and kill -9, to be watched; ./run test is what runs this"
    ),
    "README.md: lode serve --root s3://bucket/lake --state /var/lib/lode     # pip install 'lode-store[server,s3]'": (
        "needs a bucket; its flags are checked here"
    ),
    "README.md: client = BigQueryWriteClient(transport=BigQueryWriteGrpcTransport(channel="
    'grpc.insecure_channel("127.0.0.1:9060")))': "needs the server above; docs/ingest.md runs the same calls",
    'README.md: spark.read.format("lode").option("path", "s3://bucket/lake").option("dataset", "visits").load()': (
        "needs a bucket; docs/guides/spark.md runs the same calls"
    ),
    "README.md: export LODE_ROOT=lake": "docs/reference/cli.md runs the same commands",
    "docs/console.md: lode ui --root lake               # or s3://bucket/lake, gs://…, az://…; prints its address": (
        "does not end; tests/ui runs it"
    ),
    "docs/design/architecture.md: opening   dataset.py → read/define.py (which layout, which definition) → "
    "options.py (what was given is checked)": "a drawing",
    "docs/design/filters.md: tokens.py      text → tokens, by one regular expression; quoted.py knows the escapes": (
        "a drawing"
    ),
    "docs/design/writing.md: codec/records.py      anything a user passes → chunks of bounded size": "a drawing",
    "docs/guides/object-stores.md: from obstore.auth.boto3 import Boto3CredentialProvider": (
        "needs boto3 and an account"
    ),
    "docs/guides/object-stores.md: $ export AWS_ACCESS_KEY_ID=… AWS_SECRET_ACCESS_KEY=…": "needs a server on port 9000",
    "docs/guides/object-stores.md: $ lode doctor -r s3://bucket/lake": "needs a bucket; docs/reference/cli.md runs it",
    "docs/guides/operating.md: lode serve --root s3://bucket/lake --state /var/lib/lode \\": (
        "needs a bucket and certificates; its flags are checked here"
    ),
    "docs/guides/pipelines.md: lode spark run pipeline.yaml --once": (
        "needs a bucket and a JVM of its own; tests/cli/test_page.py runs the command"
    ),
    "docs/guides/pipelines.md: batch 0: 12 snapshots, 48,211 rows in, 310 rows out, 2.4 s → "
    "1794780231814885384-268a7a15a7726476": "output",
    "docs/guides/testing-your-writer.md: pip install 'lode-store[server]' google-cloud-bigquery pytest": "installs",
    "docs/ingest.md: pip install 'lode-store[server]' google-cloud-bigquery pytest  # the server; a client and pytest "
    "for this page": "installs, and serves until it is stopped; tests/ingest/processes.py starts it for the tests",
    "docs/ingest.md: credentials = grpc.composite_channel_credentials(": (
        "needs a certificate; tests/ingest/test_security.py connects this way"
    ),
    "docs/reference/cli.md: name    kind            snapshots  rows    size  last write": "output",
    "docs/reference/cli.md: table            stream      type       state      rows    visible  last write": "output",
    "docs/reference/cli.md: ● 2 1794788206864829993-3752cede4ab95634  2026-11-16 00:16:47Z": "output",
    "docs/reference/cli.md: orders: changed by snapshot 1794824544857779269-d9702365ade32c91": "output",
    "docs/reference/cli.md: lode     floor  lode / floor": "output",
    "docs/understanding/commits.md: │ a                                     │ b                                     "
    "│ latest": "output of the block before it",
    "docs/understanding/commits.md: │ a                               │ b                                       "
    "│ latest": "a drawing",
    "docs/understanding/model.md: a store        a directory or a bucket: objects by path, and a conditional write": (
        "a drawing"
    ),
}


def runs(block: Block) -> bool:
    """Whether a test runs or parses the block."""
    if block.language == "python" or block.language in PARSERS or block.language == "{eval-rst}":
        return True  # the reference in reStructuredText is built by test_site.py
    followed = {*(f"docs/{page}" for page in FOLLOWED_PAGES), "docs/reference/cli.md"}
    return block.language == "sh" and block.page in followed


def test_every_block_runs_or_says_why_not() -> None:
    assert {block.name for block in BLOCKS if not runs(block)} == set(NOT_RUN)


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
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text()):
        if not target.startswith(("http://", "https://")):
            assert (page.parent / target).exists(), f"{name_of(page)} links to {target}"


def anchors_of(page: Path) -> set[str]:
    """The names that a code host gives to the headings of a page."""
    headings = HEADING.findall(without_blocks(page))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_links_into_a_page_lead_to_a_heading(page: Path) -> None:
    for target, anchor in ANCHOR.findall(page.read_text()):
        found = page.parent / target if target else page
        assert anchor in anchors_of(found), f"{name_of(page)} links to {target}#{anchor}"
