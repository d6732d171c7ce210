"""The state directory of a server: made when it starts, and held until it ends."""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING

from lode.errors import InvalidOptionError

if TYPE_CHECKING:
    from pathlib import Path


def hold(state: Path) -> int:
    """Make and hold the state directory: two servers over one would both think its streams theirs."""
    try:
        for directory in (state / "streams", state / "acknowledged", state / "tables"):
            directory.mkdir(parents=True, exist_ok=True)
        held = os.open(state / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise InvalidOptionError(
            f"the state directory {state} cannot be used ({error.strerror}): choose another with --state"
        ) from None
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(held)
        raise InvalidOptionError(
            f"another server runs on the state directory {state}: give each its own with --state"
        ) from None
    return held
