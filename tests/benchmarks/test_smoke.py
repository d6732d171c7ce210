"""Counts are compared with their bounds, and an operation that needs more than before is named."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from benchmarks.command import main
from benchmarks.smoke import OPERATIONS, run
from benchmarks.smoke.bounds import BOUNDS, Comparison, Verdict, check, load

import lode

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
CHEAP = ["warm append", "first append", "append to 20 partitions", "delete of one of 20 partitions"]


@pytest.fixture
def bounds(tmp_path: Path) -> Path:
    """A copy of the recorded bounds that a test may change."""
    return Path(shutil.copy(BOUNDS, tmp_path / "bounds.toml"))


def careless(write: Callable[..., Any]) -> Callable[..., Any]:
    """A write that looks at the head first, which costs two reads."""

    def looked(self: lode.Dataset, *arguments: Any, **options: Any) -> Any:
        if self.exists:
            self.latest()
        return write(self, *arguments, **options)

    return looked


def test_an_operation_that_makes_more_calls_than_recorded_is_named_with_its_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lode.Dataset, "write", careless(lode.Dataset.write))
    with pytest.raises(
        SystemExit,
        match=r"^warm append: needs 6 calls, its bound is 4: .* with \./run bench --smoke --record\n",
    ):
        main(["--smoke", "--only", "warm append"])


def test_the_library_keeps_to_its_bounds() -> None:
    assert run(CHEAP) == []


def test_every_operation_has_a_bound_and_every_bound_an_operation() -> None:
    assert list(load()) == list(OPERATIONS)


def test_a_count_clearly_below_its_bound_is_reported_as_better(
    bounds: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bounds.write_text(
        bounds.read_text().replace('["warm append"]\n"calls" = 4', '["warm append"]\n"calls" = 5')
    )
    assert run(["warm append"], path=bounds) == []
    assert "warm append: needs 4 calls instead of 5, which is better" in capsys.readouterr().err


def test_recording_replaces_what_changed_and_leaves_the_rest(bounds: Path) -> None:
    before = bounds.read_text()
    bounds.write_text(before.replace('["warm append"]\n"calls" = 4', '["warm append"]\n"calls" = 3'))
    assert run(["warm append"], path=bounds) != []
    assert run(["warm append"], path=bounds, record=True) == []
    assert bounds.read_text() == before


def test_an_operation_without_a_bound_and_a_bound_without_an_operation_are_faults() -> None:
    new, gone = check({"new": {"calls": 1}}, {"old": {"calls": 2}})
    assert (new.kind, gone.kind) == (Verdict.NEW, Verdict.GONE)
    assert new.sentence.startswith("new: needs 1 calls and has no bound: ")
    assert gone.sentence.startswith("old: has the bound 2 calls, which is not counted any more: ")


@pytest.mark.parametrize(
    ("unit", "counted", "kind"),
    [
        ("calls", 101, Verdict.OVER),
        ("calls", 100, Verdict.SAME),
        ("calls", 99, Verdict.BETTER),
        ("bytes written", 102, Verdict.SAME),
        ("bytes written", 104, Verdict.OVER),
        ("bytes written", 96, Verdict.BETTER),
        ("MB of Arrow to write", 119, Verdict.SAME),
        ("MB of Arrow to write", 121, Verdict.OVER),
    ],
)
def test_calls_are_exact_and_sizes_have_a_margin(unit: str, counted: float, kind: str) -> None:
    assert Comparison("an operation", unit, counted, 100).kind == kind


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--record"], "--record goes with --smoke"),
        (["--smoke", "tables"], "--smoke counts all operations once"),
        (["--smoke", "--full"], "--smoke counts all operations once"),
        (
            ["--smoke", "--only", "warm apend"],
            "no operation 'warm apend': there are first append; warm append",
        ),
    ],
)
def test_what_does_not_fit_together_is_refused_in_a_sentence(arguments: list[str], sentence: str) -> None:
    with pytest.raises(SystemExit, match=f"^{sentence}"):
        main(arguments)


def test_ci_compares_the_counts() -> None:
    assert "./run bench --smoke\n" in (ROOT / ".ci" / "run").read_text()
