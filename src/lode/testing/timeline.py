"""A run of several actors as a text timeline: a column per actor, a row per step, and the pointer."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lode.testing.actor import Status
    from lode.testing.sim import Answer, Contents, Operation


class Event(enum.Enum):
    """What may happen when it is an actor's turn."""

    ANSWERED = "answered"
    FAILED = "failed, nothing happened"
    LOST = "no answer, nothing happened"
    UNHEARD = "no answer, but it took effect"
    DELAYED = "no answer, still under way"
    LANDED = "takes effect now"
    CRASHED = "crashes before"
    CRASHED_AFTER = "crashes after"
    CRASHED_DURING = "crashes, still under way"
    RECOVERED = "answered, alone"

    # Members are compared by identity, so they may as well be hashed by it, which takes no Python call.
    __hash__ = object.__hash__


@dataclass(frozen=True, slots=True)
class Step:
    """One step: actor, event, call, the answer to the actor, and the content of the store afterwards."""

    actor: str
    event: Event
    operation: Operation
    answer: Answer | None
    store: Contents


@dataclass(frozen=True, slots=True)
class Trace:
    """A run from the start of a scenario, exact enough to be replayed."""

    actors: tuple[str, ...]
    initial: Contents
    steps: tuple[Step, ...]
    statuses: Mapping[str, Status]

    def __str__(self) -> str:
        return render(self)


def brief(data: bytes) -> str:
    """Show an object's content in a few characters."""
    text = data.decode("utf-8", "backslashreplace").strip()
    return text if len(text) <= 24 else f"{text[:23]}…"


def render(trace: Trace, *, pointer: str | None = None, show: Callable[[bytes], str] = brief) -> str:
    """Draw the trace.

    Args:
        trace: What happened.
        pointer: The object whose value is shown on the right; the one that is swapped if not given.
        show: Turns the content of an object into a few characters.
    """
    pointer = pointer or _swapped(trace.steps)
    header = [*trace.actors, *([pointer] if pointer else [])]
    rows = [["" for _ in trace.actors] + _value(trace.initial, pointer, show)]
    for step in trace.steps:
        cells = ["" for _ in trace.actors]
        cells[trace.actors.index(step.actor)] = _cell(step, show)
        rows.append(cells + _value(step.store, pointer, show))
    endings = [str(trace.statuses[name]) for name in trace.actors] + ([""] if pointer else [])
    return _table(header, rows, endings)


def _swapped(steps: Sequence[Step]) -> str | None:
    return next((step.operation.path for step in steps if step.operation.verb == "compare_and_swap"), None)


def _value(store: Contents, pointer: str | None, show: Callable[[bytes], str]) -> list[str]:
    if pointer is None:
        return []
    return [show(store[pointer]) if pointer in store else "∅"]


def _cell(step: Step, show: Callable[[bytes], str]) -> str:
    call = _call(step.operation, show)
    match step.event:
        case Event.ANSWERED | Event.RECOVERED:
            return f"{call}{_outcome(step.answer, show)}"
        case Event.CRASHED | Event.CRASHED_AFTER | Event.CRASHED_DURING:
            return f"✗ {step.event.value}: {call}"
    return f"{call}: {step.event.value}"


def _call(operation: Operation, show: Callable[[bytes], str]) -> str:
    match operation.verb:
        case "put":
            return f"put {operation.path} {show(operation.data or b'')}".rstrip()
        case "compare_and_swap":
            expected = "∅" if operation.expected is None else show(operation.expected)
            return f"swap {operation.path} {expected} → {show(operation.data or b'')}"
        case "get_range":
            return f"get {operation.path}[{operation.offset}:{operation.offset + operation.length}]"
        case "list":
            return f"list {operation.path}*"
    return f"{operation.verb} {operation.path}"


def _outcome(answer: Answer | None, show: Callable[[bytes], str]) -> str:
    if answer is None:
        return ""
    if answer.error is not None:
        return f" ! {answer.error.__name__}"
    match answer.value:
        case None:
            return ""
        case bytes(data):
            return f" = {show(data)}"
        case bool(yes):
            return " ✓" if yes else " ✗"
        case tuple(found) if not hasattr(found, "_fields"):
            return f" = {len(found)} object{'s' * (len(found) != 1)}"
    return f" = {answer.value.size} bytes"


def _table(header: list[str], rows: list[list[str]], endings: list[str]) -> str:
    body = [*rows, endings]
    widths = [max(len(row[column]) for row in [header, *body]) for column in range(len(header))]
    number = len(str(len(rows) - 1))

    def line(label: str, cells: list[str]) -> str:
        padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        return f"{label:>{number}} │ {' │ '.join(padded)}".rstrip()

    rule = f"{'─' * number}─┼─{'─┼─'.join('─' * width for width in widths)}"
    numbered = [line(str(place) if place else "", cells) for place, cells in enumerate(rows)]
    return "\n".join([line("", header), rule, *numbered, rule, line("", endings)])
