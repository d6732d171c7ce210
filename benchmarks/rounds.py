"""Every contender once, then everyone again: what is slow for a while is slow for all."""

from __future__ import annotations

import importlib.util
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from benchmarks.progress import progress
from benchmarks.table import Cell, Row

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

# One round's numbers, in the order of the table's columns; what has no number there is None.
Sample = list[float | None]

_REASON_LENGTH = 160
# Seconds of a round, set-up included, after which a peer that may be slow is not measured again.
SLOW: Final = 10.0


class VerificationError(Exception):
    """What was measured did not do what it was to do, so its time does not count."""


class ChildError(Exception):
    """What a process that measured raised, in its words."""


class MissingError(Exception):
    """A contender that is not on this machine, and what would bring it there."""


@dataclass(slots=True)
class Outcome:
    """The rounds of one contender, until the one that failed."""

    samples: list[Sample] = field(default_factory=list)
    failed: str | None = None


def in_rounds(
    works: Mapping[str, Callable[[], Sample]],
    rounds: int,
    *,
    label: str,
    warm_up: bool = False,
    may_be_slow: Collection[str] = (),
) -> dict[str, Outcome]:
    """Run every work once a round; one that fails is not asked again and does not stop the others.

    With ``warm_up`` there is a round before them that does not count. Of those that ``may_be_slow``, one
    whose round takes longer than ``SLOW`` is measured once; ``about_slow`` says so.
    """
    outcomes = {name: Outcome() for name in works}
    slow: set[str] = set()
    for number in range(0 if warm_up else 1, rounds + 1):
        turn = f"round {number} of {rounds}" if number else "to warm up"
        for name, work in works.items():
            outcome = outcomes[name]
            if outcome.failed is not None or name in slow:
                continue
            began = time.monotonic()
            try:
                sample = work()
            except Exception as error:
                outcome.failed = reason(error)
                progress(f"{label}, {turn}, {name}: {outcome.failed}")
                continue
            progress(f"{label}, {turn}, {name}: {_brief(sample)}")
            if number:
                outcome.samples.append(sample)
                if name in may_be_slow and time.monotonic() - began > SLOW:
                    slow.add(name)
    return outcomes


def about_slow(outcomes: Mapping[str, Outcome], rounds: int) -> list[str]:
    """A note on those that were measured less often because they are slow, if there are any."""
    slow = [name for name, each in outcomes.items() if each.failed is None and len(each.samples) < rounds]
    said = f"Measured once, because a round took more than {SLOW:.0f} s, set-up included"
    return [f"{said}: {', '.join(slow)}."] if slow else []


def row_of(name: str, outcome: Outcome, against: str | None = None) -> Row:
    """A contender's rounds as cells."""
    cells = [
        Cell([value for value in column if value is not None])
        for column in zip(*outcome.samples, strict=True)
    ]
    return Row(name, cells, against, outcome.failed)


def require(package: str) -> None:
    """Raise what makes a row say that a package is not there."""
    if importlib.util.find_spec(package) is None:
        raise MissingError(f"the package {package} is not installed; ./run bench installs it")


def verify(found: object, expected: object, what: str) -> None:
    """Refuse the round unless both are the same."""
    if found != expected:
        raise VerificationError(f"{what}: expected {expected}, found {found}")


def reason(error: BaseException) -> str:
    """Why it failed, in one line that fits into a table."""
    text = " ".join(str(error).split()) or type(error).__name__
    match error:
        case VerificationError():
            said = f"verification failed: {text}"
        case MissingError():
            said = f"not measured: {text}"
        case ChildError():
            said = f"failed: {text}"
        case _:
            said = f"failed: {type(error).__name__}: {text}"
    return said if len(said) <= _REASON_LENGTH else f"{said[: _REASON_LENGTH - 1]}…"


def _brief(sample: Sequence[float | None]) -> str:
    return ", ".join("-" if value is None else f"{value:.4g}" for value in sample)
