"""Types of settings whose unit matters: the command line reads ``64MiB`` and ``3d`` for them."""

from __future__ import annotations

from typing import Annotated

Bytes = Annotated[int, "bytes"]
Seconds = Annotated[float, "seconds"]
