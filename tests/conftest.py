"""What all tests share: the number of interleavings explored is told at the end."""

from __future__ import annotations

from typing import Any


def pytest_terminal_summary(terminalreporter: Any) -> None:
    explored = [
        value
        for report in terminalreporter.stats.get("passed", [])
        for name, value in report.user_properties
        if name == "interleavings"
    ]
    if explored:
        terminalreporter.write_line(f"{sum(explored):,} interleavings explored in {len(explored)} scenarios")
