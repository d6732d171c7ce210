"""The test file on the page about testing: its tests and fixtures become those of this module, and run here.

They find the fixture ``lode_server`` as a user's project does, through the plugin that is installed.
"""

from __future__ import annotations

from support.docs.pages import DOCS, blocks_of

PAGE = DOCS / "guides" / "testing-your-writer.md"
TEST_FILE = next(block for block in blocks_of(PAGE) if "def test_" in block.text)
TEST_FILE.run(globals())


def test_the_tests_of_the_page_are_in_this_module() -> None:
    assert TEST_FILE.text.count("\ndef test_") == sum(
        getattr(found, "__code__", None) is not None and found.__code__.co_filename == TEST_FILE.page
        for name, found in globals().items()
        if name.startswith("test_")
    )
