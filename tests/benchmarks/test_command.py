"""What the command line refuses, in one line."""

from __future__ import annotations

import pytest
from benchmarks.command import failures, main
from benchmarks.table import Cell, Row, Table


def test_an_unknown_part_is_named_with_those_there_are() -> None:
    with pytest.raises(SystemExit, match=r"^no part 'tabels': there are tables, commit, .*, and report$"):
        main(["tabels"])


def test_an_unknown_contender_is_named_with_those_of_the_part() -> None:
    with pytest.raises(SystemExit, match=r"^no contender 'Deltra' in open: there are floor; Lode; Delta; "):
        main(["open", "--only", "Deltra"])


def test_a_row_of_lode_that_failed_is_named_and_one_of_a_peer_is_a_result() -> None:
    table = Table(
        "rates",
        "Rates",
        ["1", "2"],
        [
            Row("Lode", [Cell([1.0]), Cell(note="failed: it broke")]),
            Row("Lode, synced", failed="verification failed: a row is missing"),
            Row("Lode, alone", [Cell([1.0]), Cell()]),
            Row("Delta", failed="failed: it crashed"),
        ],
    )
    assert failures("commit", [table]) == [
        "commit, rates, Lode: failed: it broke",
        "commit, rates, Lode, synced: verification failed: a row is missing",
    ]
