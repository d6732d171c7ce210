"""Two stores of the same kind of data: one in memory that counts, one on the disk that is timed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import lode
from lode.runtime import Runtime
from lode.store.memory import MemoryStore
from lode.store.wrappers import CountingStore

if TYPE_CHECKING:
    from pathlib import Path

# Chores are done at once where they are ordered, so that a history is built when its last commit is.
AT_ONCE = Runtime(background=lambda chore: chore())
# None at all, so that they do not run into what is counted.
NO_CHORES = Runtime(background=lambda _: None)


@dataclass(slots=True)
class Places:
    """Where one size of an axis lives."""

    directory: Path
    memory: CountingStore = field(default_factory=lambda: CountingStore(MemoryStore()))

    @property
    def disk(self) -> lode.Store:
        """Not synced: how long the disk takes to sync is not ours to scale."""
        return lode.open_store(self.directory, durable=False)
