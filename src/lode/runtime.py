"""What the library takes from the world: time, sleep and chance. Simulations bring their own."""

from __future__ import annotations

import random
import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Runtime:
    """Clock, sleep and randomness, in one place so that a seed replays exactly."""

    now_ns: Callable[[], int] = time.time_ns
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    random: Callable[[], float] = random.random
    random_bits: Callable[[int], int] = secrets.randbits


REAL = Runtime()
