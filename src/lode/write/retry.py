"""How often and how patiently a conflicting commit is tried again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, get_args

from lode.errors import InvalidOptionError

OnConflict: TypeAlias = Literal["raise", "append"]
"""What a write does that meets an overlapping snapshot of another writer."""
CHOICES: Final = get_args(OnConflict)


@dataclass(frozen=True, slots=True)
class Retry:
    """Try a conflicting commit again on top of the other writer's snapshot, after a jittered pause.

    Without it a conflict is raised at once, so that the caller can merge. Data that may follow anybody's is
    written with ``on_conflict="append"`` instead, which needs no count.

    Args:
        count: How many times; 0 turns retrying off.
        base_delay: Seconds before the first retry; each further one waits twice as long.
        max_delay: The longest pause in seconds.
        jitter: The share of the pause that is random, from 0 (none) to 1 (all of it).
    """

    count: int = 0
    base_delay: float = 0.010
    max_delay: float = 2.0
    jitter: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.count, int) or self.count < 0:
            raise InvalidOptionError(f"Retry.count is {self.count}: it must be a whole number, 0 or more")
        if not self.base_delay >= 0:
            raise InvalidOptionError(f"Retry.base_delay is {self.base_delay} s: it must be 0 or more")
        if not self.max_delay >= self.base_delay:
            raise InvalidOptionError(
                f"Retry.max_delay is {self.max_delay} s: it must be at least base_delay, {self.base_delay} s"
            )
        if not 0 <= self.jitter <= 1:
            raise InvalidOptionError(f"Retry.jitter is {self.jitter}: it must be between 0 and 1")

    def delay(self, attempt: int, chance: float) -> float:
        """Seconds to wait before retry number ``attempt`` (from 0); ``chance`` is in [0, 1)."""
        full = min(self.max_delay, self.base_delay * 2.0 ** min(attempt, 64))
        return full * (1 - self.jitter * chance)


def check_retry(retry: Any) -> Retry:
    """Return the policy, the default for None."""
    if retry is None:
        return Retry()
    if not isinstance(retry, Retry):
        raise InvalidOptionError(f"retry is {retry!r}: give a policy, such as retry=lode.Retry(3)")
    return retry


def check_on_conflict(on_conflict: Any, *, based: bool = False) -> bool:
    """Return whether a write may follow any other; ``based`` if it also names the snapshot it depends on."""
    if on_conflict not in CHOICES:
        raise InvalidOptionError(f'on_conflict is {on_conflict!r}: it must be "raise" or "append"')
    if based and on_conflict == "append":
        raise InvalidOptionError(
            'base= and on_conflict="append" contradict each other: a write that depends on a snapshot cannot '
            "follow any other; leave one of them out"
        )
    return bool(on_conflict == "append")
