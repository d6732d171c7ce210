"""No text of a client begins a line of the log, or changes the terminal of its reader."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
import textwrap
from typing import Any

import pytest

from lode.log_lines import FORMAT, OneLineFormatter, one_line

FORGED = "2026-11-18 10:00:00,000 ERROR lode.ingest: forged"
HOSTILE = (
    f"name\n{FORGED}\r{FORGED}\x1b[2K\x1b]0;title\x07\x9b31m\u2028{FORGED}\u202e\x85\x0b\x0c\ud800\x00\x7f"
)
_UNSAFE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\ud800-\udfff]")


def formatted(message: str, *arguments: object, **more: Any) -> str:
    """What a handler writes for a record."""
    logger = logging.getLogger("lode.test_log_lines")
    record = logger.makeRecord(logger.name, logging.ERROR, "", 0, message, arguments, None, **more)
    return OneLineFormatter(FORMAT).format(record)


def check(text: str) -> None:
    """One record: what follows its first line is indented, and nothing in it is a control character."""
    assert not _UNSAFE.search(text)
    first, *more = text.split("\n")
    assert "lode.test_log_lines" in first
    assert all(line.startswith("  | ") for line in more)


class _Hostile:
    def __str__(self) -> str:
        return HOSTILE

    __repr__ = __str__


class _Failing:
    def __str__(self) -> str:
        raise RuntimeError(HOSTILE)


@pytest.mark.parametrize(
    ("message", "arguments"),
    [
        ("%s", (HOSTILE,)),
        (HOSTILE, ()),
        ("%s and %r", (_Hostile(), _Hostile())),
        ("%(a)s", ({"a": HOSTILE},)),
        ("%s", (_Failing(),)),
        ("%d", (HOSTILE,)),
        ("%s", (HOSTILE.encode(errors="replace"),)),
    ],
)
def test_a_message_is_one_line(message: str, arguments: tuple[object, ...]) -> None:
    text = formatted(message, *arguments)
    check(text)
    assert "\n" not in text


def test_the_text_of_an_error_cannot_forge_a_line() -> None:
    try:
        try:
            raise ValueError(HOSTILE)
        except ValueError:
            raise KeyError(HOSTILE) from None
    except KeyError as error:
        error.add_note(HOSTILE)
        record = logging.makeLogRecord(
            {"name": "lode.test_log_lines", "msg": "failed %s", "args": (HOSTILE,)}
        )
        record.exc_info, record.stack_info = sys.exc_info(), f"Stack\n{HOSTILE}"
    text = OneLineFormatter(FORMAT).format(record)
    check(text)
    assert "Traceback" in text


def test_a_group_of_errors_cannot_forge_a_line() -> None:
    try:
        raise ExceptionGroup(HOSTILE, [ValueError(HOSTILE), TypeError(HOSTILE)])
    except ExceptionGroup:
        record = logging.makeLogRecord({"name": "lode.test_log_lines", "msg": "failed"})
        record.exc_info = sys.exc_info()
    check(OneLineFormatter(FORMAT).format(record))


def test_a_long_text_is_cut() -> None:
    assert len(one_line("x" * 1_000_000)) < 20_000


def test_plain_text_stays_as_it_is() -> None:
    assert one_line("Zürich → 東京 'a' \"b\" \\n") == "Zürich → 東京 'a' \"b\" \\n"


def test_all_loggers_of_a_server_and_warnings_use_the_format() -> None:
    script = f"""
        import logging, warnings
        from lode.log_lines import log_to
        log_to(level="info")
        hostile = {HOSTILE!r}
        for name in ("lode.ingest", "uvicorn.error", "grpc", "asyncio", "sqlglot", "lode.audit"):
            logging.getLogger(name).warning("says %s", hostile)
        warnings.warn(hostile)
    """
    done = subprocess.run(
        [sys.executable, "-W", "default", "-c", textwrap.dedent(script)],
        capture_output=True,
        check=True,
        timeout=120,
    )
    text = done.stderr.decode()
    assert not _UNSAFE.search(text)
    starts = [line for line in text.splitlines() if not line.startswith("  | ")]
    assert len(starts) == 7
    assert not any(line.startswith(FORGED) for line in starts)
