"""Damaged and hostile lakes: every call ends with a result or a ``LodeError``, and affects nothing else."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Final

import pytest

import lode
from support.hostile import entries
from support.hostile.damages import GENERIC, damages
from support.hostile.lake import CANARY, GOOD_ROWS, build, copied, restored, targets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from support.hostile.lake import Target

# A call that takes longer hangs, also on a busy machine.
MAX_SECONDS_PER_CALL: Final = 60
# Of this thread. The processor time of a call does not depend on what else the machine does.
MAX_BUSY_SECONDS_PER_CALL: Final = 5
MAX_SEGMENT_BYTES: Final = 4 << 20
KINDS: Final = (
    "pointer", "newest manifest", "older manifest", "first manifest", "key", "pointer of a pending commit",
    "intent", "definition", "segment", "manifest in a segment", "partition copy", "hive manifest",
    "jsonl file", "zipped file", "parquet file", "arrow file", "blobs file", "pointer of a volume",
    "volume manifest", "block", "removing manifest", "restoring manifest", "checkpoint", "tag",
)  # fmt: skip

_outside: list[str] = []
_watched: list[str] = []


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if _watched and event == "open" and isinstance(arguments[0], str) and _watched[0] in arguments[0]:
        _outside.append(arguments[0])


sys.addaudithook(_audit)


class HangError(BaseException):
    """Not an ``Exception``, so that no handler catches it."""


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Interrupt a call that takes longer."""

    def interrupt(_signal: int, _frame: object) -> None:
        raise HangError(f"no answer after {seconds} s")

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("hostile")
    build(root)
    return root


@pytest.fixture(autouse=True)
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bombs of the real size take a second for each call; ``test_histories.py`` has one."""
    for module in ("lode.read.segment", "lode.read.history", "lode.write.segments"):
        monkeypatch.setattr(f"{module}.MAX_SEGMENT_BYTES", MAX_SEGMENT_BYTES)


@pytest.fixture(autouse=True)
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writes wait three seconds for a pointer without a writer; see ``test_foreign_pointers.py``."""
    monkeypatch.setattr("lode.write.recovery.GRACE_SECONDS", 0.03)
    monkeypatch.setattr("lode.write.recovery.FIRST_GRACE_PAUSE_SECONDS", 0.01)


@pytest.fixture(scope="module")
def by_kind(template: Path) -> dict[str, Target]:
    found = {target.kind: target for target in targets(template)}
    assert sorted(found) == sorted(KINDS)
    return found


class Trial:
    """Runs calls against one damaged lake and collects violations."""

    def __init__(self, what: str) -> None:
        self._what = what
        self.faults: list[str] = []

    def run(self, name: str, call: Callable[[], object]) -> object:
        answer: object = None
        busy = time.thread_time()
        try:
            with limited(MAX_SECONDS_PER_CALL):
                answer = call()
        except lode.LodeError as error:
            answer = error
            if len(str(error)) > 4000:
                self.faults.append(f"{self._what}: {name}: a message of {len(str(error))} characters")
        except (Exception, HangError) as error:
            self.faults.append(f"{self._what}: {name}: {type(error).__name__}: {str(error)[:200]}")
        if (took := time.thread_time() - busy) > MAX_BUSY_SECONDS_PER_CALL:
            self.faults.append(f"{self._what}: {name}: took {took:.1f} s")
        if CANARY in str(answer) and "paths out of the lake" not in self._what:
            self.faults.append(f"{self._what}: {name}: read outside of the lake")
        return answer

    def complain(self, complaint: str) -> None:
        self.faults.append(f"{self._what}: {complaint}")


def attack(target: Target, what: str, lake: Path, number: int) -> list[str]:
    """Run every call against a lake with one damaged object.

    DuckDB takes as long as all the rest, so only every tenth damage meets it. Damaged fields are many and
    alike: every tenth meets the command line, and the dataset as it is found, at all.
    """
    trial = Trial(f"{target.kind}: {what}")
    is_changed = target.owner == "changed"
    commands = entries.VOLUME_COMMANDS if target.volume else entries.COMMANDS
    calls = entries.VOLUME if target.volume else entries.DATASET
    if is_changed:
        # What reads without the state of the dataset has met such damages of other datasets.
        if what not in GENERIC:
            calls = {name: calls[name] for name in ("Dataset: scan", "Dataset: plan", "verify")}
        if target.kind == "tag":
            calls = {}
        commands, calls = commands | entries.CHANGE_COMMANDS, calls | entries.CHANGES
    tenth = number % 10 == 0
    for name, words in commands.items():
        if not tenth and (what not in GENERIC or words[0] == "sql"):
            continue
        filled = [word.format(name=target.owner) for word in words]
        trial.run(f"lode {name}", lambda filled=filled: entries.command(lake, filled))  # type: ignore[misc]
    if tenth:
        check_others(target, trial, lake)
    for name, entry in calls.items():
        if name.startswith("open_dataset") and not tenth and what not in GENERIC:
            continue
        trial.run(name, lambda entry=entry: entry(lake, target.owner))  # type: ignore[misc]
    if _outside:
        trial.complain(f"opened {_outside}")
    return trial.faults


def check_others(target: Target, trial: Trial, lake: Path) -> None:
    """The damaged dataset hides no other."""
    printed = {
        name: str(trial.run(f"lode {name}", lambda words=words: entries.command(  # type: ignore[misc]
            lake, [word.format(name=target.owner) for word in words])))
        for name, words in entries.AROUND.items()
    }  # fmt: skip
    lines = [json.loads(line) for line in printed["ls"].splitlines() if line.startswith("{")]
    rows = {line["name"]: line.get("rows") for line in lines}
    if rows.get("good") != GOOD_ROWS:
        trial.complain(f"lode ls hides the others: {printed['ls'][:300]}")
    if f'{{"c":{GOOD_ROWS}}}' not in printed["sql of another"]:
        trial.complain(f"lode sql hides the others: {printed['sql of another'][:300]}")
    seen: Any = trial.run("listing", lambda: entries.listed(lake))
    if not isinstance(seen, tuple) or "good" not in seen[0] or "error" in next(
        line for line in seen[2]["datasets"] if line["name"] == "good"
    ):  # fmt: skip
        trial.complain("the listing hides the others")


@pytest.mark.parametrize("kind", KINDS)
def test_every_call_ends_with_a_result_or_a_lode_error_and_other_datasets_stay_visible(
    kind: str, by_kind: dict[str, Target], template: Path, tmp_path: Path
) -> None:
    target = by_kind[kind]
    beside = {path: path.read_bytes() for path in (template / "outside").rglob("*") if path.is_file()}
    threads = threading.active_count()
    _watched[:], _outside[:] = [str(tmp_path / "case" / "outside")], []
    faults: list[str] = []
    try:
        lake = copied(template, tmp_path / "case")
        for number, (what, damage) in enumerate(damages(target)):
            damage(lake / target.path)
            faults += attack(target, what, lake, number)
            restored(template, lake, target)
    finally:
        _watched.clear()
    assert not faults, "\n".join(faults)
    assert {path: path.read_bytes() for path in beside} == beside
    assert threading.active_count() <= threads + 40
