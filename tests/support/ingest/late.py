"""A store whose responses get lost, while the requests take effect later."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from lode.errors import OutcomeUnknownError
from lode.ingest.status import Refused
from lode.store.wrappers import StoreWrapper
from support.ingest.engines import engine_on

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lode.ingest.core.engine import Engine
    from lode.store.protocol import Store
    from support.ingest.jobs import Job

T = TypeVar("T")


class LateStore(StoreWrapper):
    """While ``holding``, delays swaps of pointers and reports their outcome as unknown."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.holding = False
        self.landing = False
        self._held: list[Callable[[], object]] = []

    def around(self, method: str, path: str, call: Callable[[], T]) -> T:
        if method == "compare_and_swap" and path.endswith("/latest"):
            if self.holding:
                self._held.append(call)
                raise OutcomeUnknownError("held back")
            if self.landing:
                self.land()
        return call()

    def land(self) -> bool:
        """Run the delayed swaps; returns whether any of them took effect."""
        held, self._held = self._held, []
        return [call() for call in held].count(True) > 0


def lost(late: LateStore, job: Job, state: Path, store: Store | None = None) -> Engine:
    """A server whose first attempt of the job was delayed."""
    engine = engine_on(store or late, state)
    job.prepare(engine)
    late.holding = True
    with suppress(Refused):
        job.begin(engine)
    job.settle()
    late.holding = False
    return engine
