"""What all tests share: real servers, and a summary of what was explored and what was left out."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from lode.testing.servers import AzuriteServer, S3Server

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    with S3Server() as server:
        server.create("lake")
        yield server


@pytest.fixture(scope="session")
def azurite_server() -> Iterator[AzuriteServer]:
    with AzuriteServer() as server:
        server.create("lake")
        yield server


def pytest_terminal_summary(terminalreporter: Any) -> None:
    explored = [
        value
        for report in terminalreporter.stats.get("passed", [])
        for name, value in report.user_properties
        if name == "interleavings"
    ]
    if explored:
        terminalreporter.write_line(f"{sum(explored):,} interleavings explored in {len(explored)} scenarios")
    reasons = Counter(report.longrepr[2] for report in terminalreporter.stats.get("skipped", []))
    for reason, count in reasons.items():
        terminalreporter.write_line(
            f"{count} tests left out: {reason.removeprefix('Skipped: ')}", yellow=True
        )
