"""What requests cost: S3 Standard's list prices in its cheapest regions, in dollars.

Other object stores are of the same order.
"""

from __future__ import annotations

WRITE_REQUEST = 0.005 / 1000
READ_REQUEST = 0.0004 / 1000


def price(*, reads: float, writes: float) -> float:
    """What so many requests cost."""
    return reads * READ_REQUEST + writes * WRITE_REQUEST
