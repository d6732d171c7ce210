"""Streams whose logs are damaged: they are refused until they are repaired, and all others go on."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from lode.ingest.status import Code, Refused

if TYPE_CHECKING:
    from lode.ingest.names import StreamName

# When such a stream was created is in its log, which cannot be believed.
_UNKNOWN: Final = datetime(1970, 1, 1, tzinfo=UTC)

logger = logging.getLogger("lode.ingest")


class Damaged:
    """The damaged streams by their ids, and what is wrong with each."""

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._reasons)

    def add(self, stream: str, error: Exception) -> None:
        logger.error(
            "write stream %s is refused until this is repaired and the server restarted: %s", stream, error
        )
        self._reasons[stream] = str(error)

    def check(self, name: StreamName) -> None:
        """Refuse a damaged stream."""
        reason = self._reasons.get(name.stream)
        if reason is not None:
            raise Refused(
                Code.DATA_LOSS,
                f"Write stream {name} is refused: {reason}; then start the server again.",
                entity=str(name),
                ends_call=True,
            )

    @property
    def created(self) -> dict[str, datetime]:
        """Since when rows of these streams may have become visible."""
        return dict.fromkeys(self._reasons, _UNKNOWN)
