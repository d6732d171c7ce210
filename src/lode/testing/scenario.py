"""What an exploration is asked and what it shows: who runs, what may go wrong, each moment, what broke."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from lode.errors import LodeError
from lode.testing.actor import Actor, Crashed, Raised, Returned, Running, Status, World
from lode.testing.timeline import render

if TYPE_CHECKING:
    from lode.testing.sim import Contents
    from lode.testing.timeline import Trace

RECOVERY = "recovery"
"""The name under which a view shows the recovery actor."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """Who runs, on what, and what may go wrong.

    Attributes:
        actors: The programs that run at once, by name.
        initial: What the store holds at the start, dated a day before all that the actors write.
        crashes: How many actors may crash in one run, before or after any call.
        mortal: The actors that may crash. Default: all.
        unknown: How many mutating calls of one run may end in ``OutcomeUnknownError``, having taken effect or
            not.
        delayed: A mutating call whose answer was lost, or whose caller crashed,
            may take effect at any later time, or never.
        failures: How many calls of one run may fail with a plain ``StoreError`` and no effect.
        compare_and_swap: Whether the store has it.
        raises: The errors an actor may end with. Any other is a violation, and so is ``AssertionError``.
        recovery: An actor run alone from every content the store ever has. It must return, and the checks
            must hold afterwards: after any crash the next actor succeeds. Pending requests stay pending.
        track_order: Remember which actors had returned at the first call of an actor, for ``View.before``.
        max_calls: An actor that makes more calls than this in one run is a violation.
    """

    actors: Mapping[str, Actor]
    initial: Mapping[str, bytes] = field(default_factory=dict)
    crashes: int = 0
    mortal: Collection[str] | None = None
    unknown: int = 0
    delayed: bool = False
    failures: int = 0
    compare_and_swap: bool = True
    raises: tuple[type[Exception], ...] = (LodeError,)
    recovery: Actor | None = None
    track_order: bool = False
    max_calls: int = 200


class View:
    """What a checker sees of one moment: the store and how far each actor came."""

    __slots__ = ("_before", "_number", "_swap", "_world", "actors", "store")

    def __init__(
        self,
        world: World,
        number: int,
        actors: Mapping[str, Status],
        before: Mapping[str, frozenset[str]],
        *,
        swap: bool,
    ) -> None:
        self.store: Contents = world.contents[number]
        self.actors = actors
        self._world = world
        self._number = number
        self._before = before
        self._swap = swap

    @property
    def returned(self) -> dict[str, Any]:
        """What each actor returned that did."""
        return {name: status.value for name, status in self.actors.items() if isinstance(status, Returned)}

    @property
    def raised(self) -> dict[str, Exception]:
        """What each actor raised that has ended with an error."""
        return {name: status.error for name, status in self.actors.items() if isinstance(status, Raised)}

    @property
    def crashed(self) -> frozenset[str]:
        """The actors that have crashed."""
        return frozenset(name for name, status in self.actors.items() if isinstance(status, Crashed))

    @property
    def running(self) -> frozenset[str]:
        """The actors that have not ended."""
        return frozenset(name for name, status in self.actors.items() if isinstance(status, Running))

    def before(self, actor: str) -> frozenset[str]:
        """Return the actors that had returned when ``actor`` made its first call; needs ``track_order``."""
        return self._before.get(actor, frozenset())

    def ask(self, actor: Actor) -> Any:
        """Run ``actor`` alone on this store and return what it returns; what it writes is forgotten.

        An actor is run once for each content of the store, so asking is cheap as long as it is the same
        function each time. Treat the result as frozen.
        """
        return self._world.ask(self._number, actor, swap=self._swap)

    def __repr__(self) -> str:
        actors = ", ".join(f"{name} {status}" for name, status in self.actors.items())
        return f"View({actors}; {dict(self.store)})"


Check: TypeAlias = Callable[[View], object]
"""Raises, or returns False, when what it sees must never be."""


class Violation(AssertionError):  # noqa: N818 - it is a finding, not an error of the explorer
    """A run that breaks a check, as short as any."""

    def __init__(self, reason: str, trace: Trace, *, seed: int | None = None) -> None:
        origin = "" if seed is None else f"seed {seed}: "
        super().__init__(f"{origin}{reason}\n\n{render(trace)}")
        self.reason = reason
        self.trace = trace
        self.seed = seed

    def __reduce__(self) -> tuple[Any, ...]:
        return AssertionError, (str(self),)
