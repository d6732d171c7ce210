"""Which error ends with which code."""

from __future__ import annotations

import pytest

import lode
from lode.cli.failure import exit_code, sentence


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (lode.StoreError("the store failed"), 1),
        (lode.ChecksumMismatchError("other bytes"), 1),
        (lode.MissingDependencyError("not installed"), 1),
        (RuntimeError("unexpected"), 1),
        (lode.InvalidOptionError("unknown"), 2),
        (lode.NoSnapshotsError("empty"), 3),
        (FileNotFoundError(2, "No such file or directory", "rows.csv"), 3),
        (lode.SnapshotConflictError("somebody was faster"), 4),
        (lode.OverlappingBlocksError("taken"), 4),
        (lode.CommitUnknownError("no answer"), 6),
        (lode.CommitUnpublishedError("decided, not shown"), 6),
    ],
)
def test_the_code_says_what_to_do_about_it(error: Exception, code: int) -> None:
    assert exit_code(error) == code


def test_an_error_nobody_expected_is_told_in_its_first_line() -> None:
    assert sentence(RuntimeError("bad\nvery bad")) == "RuntimeError: bad"
