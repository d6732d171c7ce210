"""The pages of the documentation and their code blocks, as the tests of this folder see them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
PAGES = sorted([ROOT / "README.md", *DOCS.glob("**/*.md")])
# Their blocks share one JVM, in test_spark_pages.py.
SPARK_PAGES = ("guides/spark.md", "guides/pipelines.md")
# Pages that are followed from top to bottom, shell and Python in turn: these by test_shell.py,
FOLLOWED_HERE = (
    "docs/console.md",
    "docs/guides/compaction.md",
    "docs/guides/correcting-data.md",
    "docs/guides/deleting-personal-data.md",
    "docs/guides/object-stores.md",
    "docs/guides/recovering.md",
    "docs/ingest.md",
)
# and these by tests/package/test_followed.py, where nothing but the wheel with these extras is installed.
FOLLOWED_INSTALLED = {"README.md": ("all", "testing"), "docs/start.md": ()}
FOLLOWED_PAGES = (*FOLLOWED_HERE, *FOLLOWED_INSTALLED)
_FENCED = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, its text, and the number of lines before it."""

    page: str
    language: str
    text: str
    line: int

    @property
    def name(self) -> str:
        """The page and the first line of the block."""
        return f"{self.page}: {self.text.partition(chr(10))[0].strip()}"

    def run(self, namespace: dict[str, object]) -> None:
        """Run a Python block."""
        # Blank lines in front make a traceback name the page's own line.
        code = compile("\n" * self.line + self.text, self.page, "exec", dont_inherit=True)
        exec(code, namespace)


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text()
    return [
        Block(name_of(page), found[1], found[2], text[: found.start(2)].count("\n"))
        for found in _FENCED.finditer(text)
    ]


def without_blocks(page: Path) -> str:
    """The text of a page between its blocks."""
    return _FENCED.sub("", page.read_text())


def run_page(page: Path) -> None:
    """Run the Python blocks of a page, in order, in one namespace."""
    namespace: dict[str, object] = {"__name__": "__page__"}
    for block in blocks_of(page):
        if block.language == "python":
            block.run(namespace)
