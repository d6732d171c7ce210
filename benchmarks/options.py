"""What the command line decides for every part; what a part is, says ``benchmarks.table``."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class Options:
    """How large and where; ``only`` names the contenders to run, all if empty."""

    quick: bool = True
    only: tuple[str, ...] = ()
    directory: str | None = None

    @property
    def size(self) -> str:
        return "quick" if self.quick else "full"

    @property
    def rounds(self) -> int:
        """How often every contender is measured, in turn."""
        return 1 if self.quick else 3

    def wants(self, name: str) -> bool:
        return not self.only or any(part in name for part in self.only)

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """A directory that is gone afterwards."""
        with tempfile.TemporaryDirectory(
            prefix="lode-bench-", dir=self.directory, ignore_cleanup_errors=True
        ) as root:
            yield Path(root)
