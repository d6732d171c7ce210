"""A log compared with a plain list, for random appends, marks, trims and reopenings."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from lode.ingest.log.stream_log import StreamLog
from support.ingest.logs import FACTS, batch, numbers, segments

SIZES = st.lists(st.integers(0, 12), max_size=4)
KINDS = st.sampled_from(["finalized", "committed", "flushed"])
VALUES = (
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.text(max_size=5)
    | st.lists(st.integers(0, 9), max_size=3)
)
GARBAGE = st.binary(min_size=1, max_size=200) | st.integers(1, 5000).map(bytes)


class LogMachine(RuleBasedStateMachine):
    """The model is the number of appended rows, the number of trimmed ones, and the marks."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp()) / "log"

    def teardown(self) -> None:
        self.log.close()
        shutil.rmtree(self.directory.parent)

    @initialize(segment_bytes=st.sampled_from([500, 3000, 100_000]))
    def begin(self, segment_bytes: int) -> None:
        self.segment_bytes = segment_bytes
        # Not durable: other tests kill processes, and syncs would only be slow here.
        self.log = StreamLog.create(self.directory, FACTS, durable=False, segment_bytes=segment_bytes)
        self.rows = 0
        self.trimmed = 0
        self.marks: dict[str, Any] = {}

    @rule(sizes=SIZES)
    def append(self, sizes: list[int]) -> None:
        batches = [batch(self.rows + sum(sizes[:at]), size) for at, size in enumerate(sizes)]
        assert self.log.append(batches) == self.rows
        self.rows += sum(sizes)

    @rule(kind=KINDS, value=VALUES)
    def mark(self, kind: str, value: Any) -> None:
        self.log.mark(kind, value)
        self.marks[kind] = value

    @rule(share=st.floats(0, 1))
    def trim(self, share: float) -> None:
        upto = self.log.start + round((self.rows - self.log.start) * share)
        self.log.trim(upto)
        self.trimmed = max(self.trimmed, upto)

    @rule()
    def close(self) -> None:
        self.log.close()

    @rule()
    def open_again(self) -> None:
        self.log.close()
        self.log = StreamLog.open(self.directory, durable=False, segment_bytes=self.segment_bytes)

    @rule(garbage=GARBAGE)
    def open_again_with_garbage_at_the_end(self, garbage: bytes) -> None:
        with segments(self.directory)[-1].open("ab") as file:
            file.write(garbage)
        self.open_again()

    @precondition(lambda self: self.rows > self.log.start)
    @rule(ends=st.tuples(st.floats(0, 1), st.floats(0, 1)))
    def read(self, ends: tuple[float, float]) -> None:
        start, stop = sorted(self.log.start + round((self.rows - self.log.start) * end) for end in ends)
        assert numbers(self.log, start, stop) == list(range(start, stop))

    @invariant()
    def it_is_as_the_model(self) -> None:
        assert self.log.end == self.rows
        assert self.log.start <= self.trimmed
        assert self.log.marks == self.marks
        assert self.log.facts == FACTS
        assert self.log.bytes == sum(path.stat().st_size for path in segments(self.directory))
        assert self.log.bytes <= (self.rows - self.log.start) * 700 + self.segment_bytes + 2000


TestLog = LogMachine.TestCase
TestLog.settings = settings(max_examples=80, stateful_step_count=30, deadline=None)
