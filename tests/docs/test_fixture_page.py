"""The test file on the page about testing is one: pytest runs it, with the fixture that is installed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "testing-your-writer.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_test_file_of_the_page_passes(tmp_path: Path) -> None:
    code = BLOCK.findall(PAGE.read_text())[0]
    (tmp_path / "test_orders.py").write_text(code)
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_orders.py"],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-1000:]
    assert f"{code.count('def test_')} passed" in ended.stdout
