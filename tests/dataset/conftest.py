from __future__ import annotations

from contract.conftest import memory, store

__all__ = ["memory", "store"]
