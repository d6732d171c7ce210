"""A store whose answers get lost on the way, while what was asked for arrives later."""

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
    """Keeps the swaps of pointers back and says that their answers were lost, while ``holding``."""

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
        """Let what was kept back reach the store; tells whether any of it took effect."""
        held, self._held = self._held, []
        return [call() for call in held].count(True) > 0


def lost(late: LateStore, job: Job, state: Path, store: Store | None = None) -> Engine:
    """A server whose first try at the job was lost on the way."""
    engine = engine_on(store or late, state)
    job.prepare(engine)
    late.holding = True
    with suppress(Refused):
        job.begin(engine)
    job.settle()
    late.holding = False
    return engine
