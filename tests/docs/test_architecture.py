"""The map of the code is true: the picture is that of the layers, and every file it names exists."""

from __future__ import annotations

import re
import runpy

from support import ROOT

PAGE = (ROOT / "docs" / "design" / "architecture.md").read_text()


def test_the_picture_is_drawn_from_the_layers_of_the_import_contract() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "draw_architecture.py"))
    remake = "remake it: ./run python scripts/draw_architecture.py"
    assert script["PICTURE"].read_text() == script["drawing"](), remake


def test_every_file_of_the_way_of_a_call_exists() -> None:
    (ways,) = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    missing = []
    for line in ways.splitlines():
        for path in re.findall(r"[\w/]+(?:\.py|/)(?!\w)", line):
            tries = (path, f"ingest/{path}")
            missing += [path] if not any((ROOT / "src/lode" / each).exists() for each in tries) else []
    assert missing == []


def test_every_package_of_the_table_exists() -> None:
    named = re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE)
    paths = [path for cell in named for path in re.findall(r"`([\w/.]+)`", cell)]
    assert len(paths) > 15
    src = ROOT / "src"
    folders = (src, src / "lode", src / "lode" / "ingest")
    assert [path for path in paths if not any((folder / path).exists() for folder in folders)] == []
