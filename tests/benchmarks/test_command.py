"""What the command line refuses, in one line."""

from __future__ import annotations

import pytest
from benchmarks.command import main


def test_an_unknown_part_is_named_with_those_there_are() -> None:
    with pytest.raises(SystemExit, match=r"^no part 'tabels': there are tables, commit, .*, and report$"):
        main(["tabels"])


def test_an_unknown_contender_is_named_with_those_of_the_part() -> None:
    with pytest.raises(SystemExit, match=r"^no contender 'Deltra' in open: there are floor; Lode; Delta; "):
        main(["open", "--only", "Deltra"])
