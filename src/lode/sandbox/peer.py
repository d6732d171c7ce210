"""Calls between a server and one of its processes. Each side may call the other while it answers a call.

What a server sends is a pickle, since a table is whatever its store needs. What a process sends is JSON and
Arrow: a process that was taken over cannot make its server run code.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lode.lazy import pa
from lode.sandbox.frames import BATCH, CALL, DONE, FAILED, SCHEMA

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

# Larger batches are cut, smaller ones are sent as they are.
_BATCH_BYTES: Final = 32 << 20


class Rows(NamedTuple):
    """The answer of a call that returns rows."""

    schema: pa.Schema
    batches: Iterable[pa.RecordBatch]


class PeerError(Exception):
    """The other side has failed. ``description`` is what it said about its error."""

    def __init__(self, description: dict[str, Any]) -> None:
        super().__init__(str(description.get("text", "")))
        self.description = description


class Peer(ABC):
    """One side. It has one thread at a time."""

    def __init__(self, handlers: Mapping[str, Callable[..., Any]]) -> None:
        self.handlers = handlers
        # Whether rows of the other side are still to come.
        self.is_reading = False

    @abstractmethod
    def send(self, kind: bytes, content: bytes | memoryview) -> None:
        """Send one frame."""

    @abstractmethod
    def receive(self) -> tuple[bytes, bytearray]:
        """The next frame of the other side."""

    @abstractmethod
    def encode(self, value: Any) -> bytes:
        """A value as it is sent."""

    @abstractmethod
    def decode(self, content: bytearray) -> Any:
        """A value that was sent."""

    @abstractmethod
    def describe(self, error: Exception) -> dict[str, Any]:
        """An error as it is sent."""

    @abstractmethod
    def raised(self, description: dict[str, Any]) -> Exception:
        """The error of a call that the other side could not answer."""

    def call(self, name: str, *arguments: Any) -> Any:
        """Call a function of the other side; returns what it returns."""
        self.send(CALL, self.encode((name, arguments)))
        _, content = self._next(DONE)
        return self.decode(content)

    def rows(self, name: str, *arguments: Any) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """Call a function that returns rows. They have to be read, or their iterator closed."""
        self.send(CALL, self.encode((name, arguments)))
        _, content = self._next(SCHEMA)
        self.is_reading = True
        schema = pa.ipc.read_schema(pa.py_buffer(content))
        return schema, self._batches(schema)

    def _batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        try:
            while self.is_reading:
                kind, content = self._answered(BATCH, DONE)
                if kind == DONE:
                    return
                batch = pa.ipc.read_record_batch(pa.py_buffer(content), schema)
                for column in batch.columns:
                    # Offsets of a process that was taken over could lead out of its memory. Arrow knows no
                    # number of 77 digits.
                    column.validate(full="decimal256" not in str(column.type))
                yield batch
        finally:
            self.stop_reading()

    def stop_reading(self) -> None:
        """Leave out the rows of the other side that are still to come."""
        if self.is_reading:
            self.abandon()
            self._read_all()

    def _answered(self, *expected: bytes) -> tuple[bytes, bytearray]:
        """The next frame of rows. There is none after an error."""
        try:
            kind, content = self._next(*expected)
        except BaseException:
            self._read_all()
            raise
        if kind == DONE:
            self._read_all()
        return kind, content

    def _read_all(self) -> None:
        self.is_reading = False
        self.end_rows()

    def abandon(self) -> None:
        """The rest of some rows is not wanted."""
        while self.receive()[0] not in (DONE, FAILED):
            pass

    def _next(self, *expected: bytes) -> tuple[bytes, bytearray]:
        """The next frame other than a call. Calls are answered."""
        while True:
            kind, content = self.receive()
            if kind == CALL:
                self.answer(content)
            elif kind == FAILED:
                raise self.raised(self.decode(content))
            elif kind in expected:
                return kind, content
            else:
                raise PeerError({"text": f"a frame of the kind {kind!r} came out of turn"})

    def answer(self, content: bytearray) -> None:
        """Run the function that a call names, and send what it returns."""
        before = self.is_reading
        try:
            name, arguments = self.decode(content)
            try:
                found = self.handlers[name](*arguments)
            finally:
                if not before:
                    self.stop_reading()  # rows that the function has asked for and not read
            if isinstance(found, Rows):
                self._send_rows(found)
                found = None
            made = self.encode(found)
        except Exception as error:  # the other side raises it
            self.send(FAILED, self.encode(self.describe(error)))
        else:
            self.send(DONE, made)

    def _send_rows(self, rows: Rows) -> None:
        self.send(SCHEMA, memoryview(rows.schema.serialize()))
        try:
            for batch in rows.batches:
                for part in _cut(batch):
                    self.send(BATCH, memoryview(part.serialize()))
        finally:
            self.end_rows()

    @abstractmethod
    def end_rows(self) -> None:
        """Rows have ended, of this side or the other: an interrupt of them does not count any more."""


def _cut(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Parts of a batch that fit into a frame."""
    size = batch.nbytes
    if size <= _BATCH_BYTES or batch.num_rows < 2:
        yield batch
        return
    half = batch.num_rows // 2
    yield from _cut(batch.slice(0, half))
    yield from _cut(batch.slice(half))
