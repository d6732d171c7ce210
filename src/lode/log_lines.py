"""Log lines that nobody can forge: one record is one line, and what belongs to it is indented.

Messages repeat names, queries and errors of clients. A line break in them would begin a line of its own, and
an escape sequence would change the terminal of its reader.
"""

from __future__ import annotations

import logging
import re
import sys
from typing import IO, Final

# What starts a line or a sequence, changes the direction of text, or cannot be encoded.
_UNSAFE: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]"
)
_MAX_CHARS: Final = 10_000
_MORE: Final = "\n  | "
FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def one_line(text: str) -> str:
    r"""The text with control characters written as ``\n``, ``\x1b`` or ``\u2028``, and cut if it is long."""
    cut = text if len(text) <= _MAX_CHARS else f"{text[:_MAX_CHARS]}…"
    return _UNSAFE.sub(lambda found: _ESCAPES.get(found[0]) or _escaped(ord(found[0])), cut)


_ESCAPES: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def _escaped(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


class OneLineFormatter(logging.Formatter):
    """Formats a record as one line; the lines of a traceback follow, each after ``  | ``."""

    def format(self, record: logging.LogRecord) -> str:
        # A copy: other handlers may want the record as it is. Its own text is not reused either.
        safe = logging.makeLogRecord(
            {**vars(record), "msg": one_line(_message(record)), "args": (), "exc_text": None}
        )
        safe.name = one_line(record.name)
        safe.exc_info = safe.stack_info = None
        lines = [super().format(safe)]
        if record.exc_info:
            lines += self.formatException(record.exc_info).splitlines()
        if record.stack_info:
            lines += record.stack_info.splitlines()
        first, *more = lines
        return _MORE.join([first, *(one_line(line) for line in more)])


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception as error:  # of the text of an argument, or a wrong number of them
        return f"{record.msg!r} could not be formatted ({type(error).__name__})"


def log_to(stream: IO[str] | None = None, *, level: str = "warning") -> None:
    """Send all loggers, and warnings, to one stream; stderr if none is given."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(OneLineFormatter(FORMAT))
    logging.basicConfig(level=logging.getLevelName(level.upper()), handlers=[handler])
    logging.captureWarnings(True)
