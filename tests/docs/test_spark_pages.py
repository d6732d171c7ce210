"""The Python blocks of the pages on Spark run, in order, on one Spark session for all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.docs.pages import DOCS, SPARK_PAGES, run_page

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.usefixtures("spark")  # the page asks for a session and gets this one
@pytest.mark.parametrize("page", SPARK_PAGES)
def test_a_page_on_spark_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(DOCS / page)
