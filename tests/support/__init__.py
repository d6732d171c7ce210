"""What tests share: data, servers, and the programs that some of them start."""

from __future__ import annotations

from pathlib import Path
from typing import Final

SUPPORT: Final = Path(__file__).parent
ROOT: Final = SUPPORT.parents[1]
