"""Every bomb, in the order of the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.bombs.calls import call_bombs
from support.bombs.loads import load_bombs
from support.bombs.queries import sql_bombs
from support.bombs.rpcs import rpc_bombs

if TYPE_CHECKING:
    from support.bombs.bomb import Bomb


def all_bombs() -> list[Bomb]:
    """Every bomb."""
    return [*load_bombs(), *sql_bombs(), *rpc_bombs(), *call_bombs()]
