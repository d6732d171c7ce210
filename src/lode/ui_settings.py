"""The settings of the console, which are the flags of ``lode ui``.

Not in ``lode.ui``, whose import needs the extra ``server``: help and completion read these flags without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

# The console has no authentication, so it listens on loopback only.
HOST: Final = "127.0.0.1"
PORT: Final = 9070


@dataclass(frozen=True, slots=True, kw_only=True)
class UiSettings:
    """The settings of one console.

    Args:
        port: The port of the page; 0 takes a free one.
        open: Open the page in the browser.
    """

    port: int = PORT
    open: bool = False
