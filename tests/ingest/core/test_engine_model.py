"""An engine compared with plain lists, for random requests of clients and crashes."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
)

from lode.ingest.core.strategies import State, StreamType
from lode.ingest.core.streams import AppendInFlight
from lode.ingest.status import Code, Refused, StorageCode
from lode.store.wrappers import Fault, FaultStore, SimulatedCrash
from support.ingest.engines import (
    PLAIN,
    SCHEMA,
    TABLES,
    WIDER,
    create_table,
    dataset_of,
    die,
    engine_on,
    ids_in,
    is_one_line,
    lake,
    refusal_of,
    rows,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Future

    from lode.ingest.core.engine import Engine
    from lode.ingest.core.streams import Stream
    from lode.ingest.names import StreamName, TableName
    from lode.ingest.types.columns import TableSchema

COMMITTED, PENDING, BUFFERED = StreamType.COMMITTED, StreamType.PENDING, StreamType.BUFFERED
KINDS = st.sampled_from([COMMITTED, PENDING, BUFFERED])
NAMES = st.sampled_from(TABLES)
SIZES = st.integers(1, 12)


@dataclass(eq=False)
class ModelTable:
    """One generation of a table."""

    schema: TableSchema = SCHEMA
    # Rows of the default stream, by append.
    shown: list[list[int]] = field(default_factory=list)


@dataclass(eq=False)
class ModelStream:
    name: StreamName
    kind: StreamType
    table: ModelTable
    # Of the running engine; a call of a client may use it while its table is deleted.
    held: Stream
    rows: list[int] = field(default_factory=list)
    visible: int = 0
    state: State = State.OPEN


@dataclass
class Sent:
    """An append in flight."""

    stream: ModelStream | ModelTable
    ids: list[int]
    answer: Future[int | None]


class EngineMachine(RuleBasedStateMachine):
    """One server on one store; the model has the rows of its streams and tables."""

    streams: Bundle[ModelStream] = Bundle("streams")

    def __init__(self) -> None:
        super().__init__()
        self.state = Path(tempfile.mkdtemp())

    @initialize(target=streams)
    def begin(self) -> MultipleResults[ModelStream]:
        """Begin with a stream of each type."""
        self.inner = lake()
        self.tables: dict[TableName, ModelTable | None] = {name: ModelTable() for name in TABLES}
        self.known: list[ModelStream] = []
        self.next_id = 0
        self.start()
        kinds = (COMMITTED, PENDING, BUFFERED, PENDING)
        return multiple(*(self.new_stream(name, kind) for name in TABLES for kind in kinds))

    def start(self) -> None:
        self.store = FaultStore(self.inner)
        self.engine: Engine = engine_on(self.store, self.state)
        for stream in self.known:
            if self.lives(stream):
                stream.held = self.engine.stream(stream.name)

    def teardown(self) -> None:
        if hasattr(self, "engine"):
            self.engine.close()
        shutil.rmtree(self.state)

    # -- the model -----------------------------------------------------------------------------

    def lives(self, stream: ModelStream) -> bool:
        return self.tables[stream.name.table] is stream.table

    def ids(self, count: int) -> list[int]:
        self.next_id += count
        return list(range(self.next_id - count, self.next_id))

    def send(self, stream: ModelStream, count: int, offset: int | None) -> Sent:
        ids = self.ids(count)
        return Sent(stream, ids, stream.held.append(rows(ids, stream.table.schema), offset))

    def store_all(self, sent: Sequence[Sent]) -> None:
        """Wait for the answers in order; all must succeed."""
        for append in sent:
            assert refusal_of(append.answer) is None
            assert append.answer.result() == self.offset_of(append)
            self.take_in(append)

    def take_in(self, append: Sent) -> None:
        if isinstance(append.stream, ModelTable):
            append.stream.shown.append(append.ids)
            return
        append.stream.rows += append.ids
        if append.stream.kind is COMMITTED:
            append.stream.visible = len(append.stream.rows)

    def offset_of(self, append: Sent) -> int | None:
        return len(append.stream.rows) if isinstance(append.stream, ModelStream) else None

    def staged(self, kind: StreamType) -> list[ModelStream]:
        """The streams of this type with rows that can still become visible."""
        return [
            stream
            for stream in self.known
            if stream.kind is kind
            and self.lives(stream)
            and stream.visible < len(stream.rows)
            and (kind is PENDING or stream.state is State.OPEN)
        ]

    def is_gone(self, stream: ModelStream) -> bool:
        """Whether its table was deleted, and with it the stream."""
        if self.lives(stream):
            return False
        with pytest.raises(Refused) as refused:
            self.engine.stream(stream.name)
        assert refused.value.code is Code.NOT_FOUND
        return True

    # -- streams -------------------------------------------------------------------------------

    @rule(target=streams, name=NAMES, kind=KINDS)
    def create_stream(self, name: TableName, kind: StreamType) -> ModelStream:
        table = self.tables[name]
        if table is None:
            with pytest.raises(Refused) as refused:
                self.engine.create_stream(name, kind)
            assert refused.value.storage is StorageCode.TABLE_NOT_FOUND
            self.create_table(name)
        return self.new_stream(name, kind)

    def new_stream(self, name: TableName, kind: StreamType) -> ModelStream:
        table = self.tables[name]
        assert table is not None
        held = self.engine.create_stream(name, kind)
        stream = ModelStream(held.name, kind, table, held)
        self.known.append(stream)
        return stream

    @rule(stream=streams, count=SIZES, with_offset=st.booleans())
    def append(self, stream: ModelStream, count: int, with_offset: bool) -> None:
        if self.is_gone(stream):
            return
        if stream.state is not State.OPEN:
            with pytest.raises(Refused) as refused:
                self.send(stream, count, None)
            assert refused.value.storage is StorageCode.STREAM_FINALIZED
            return
        self.store_all([self.send(stream, count, len(stream.rows) if with_offset else None)])

    @rule(stream=streams, count=SIZES, by=st.integers(-12, 12).filter(bool))
    def append_elsewhere(self, stream: ModelStream, count: int, by: int) -> None:
        offset = len(stream.rows) + by
        if self.is_gone(stream) or stream.state is not State.OPEN:
            return
        with pytest.raises(Refused) as refused:
            self.send(stream, count, offset)
        if offset < 0:
            assert refused.value.code is Code.INVALID_ARGUMENT
        elif by < 0:
            assert refused.value.storage is StorageCode.OFFSET_ALREADY_EXISTS
        else:
            assert refused.value.storage is StorageCode.OFFSET_OUT_OF_RANGE

    @rule(many=st.lists(st.tuples(streams, SIZES), min_size=2, max_size=8), again=st.booleans())
    def append_many_at_once(self, many: list[tuple[ModelStream, int]], again: bool) -> None:
        sent: list[Sent] = []
        self.send_many(sent, many, again=again)
        self.store_all(sent)

    def send_many(self, sent: list[Sent], many: list[tuple[ModelStream, int]], *, again: bool) -> None:
        """Send appends with offsets without waiting, and appends to the default streams in between."""
        ends: Counter[StreamName] = Counter()
        for stream, count in many:
            if not self.lives(stream) or stream.state is not State.OPEN:
                continue
            offset = len(stream.rows) + ends[stream.name]
            sent.append(self.send(stream, count, offset))
            ends[stream.name] += count
            if again:
                with pytest.raises((Refused, AppendInFlight)):
                    self.send(stream, count, offset)
            ids = self.ids(count)
            answer = self.engine.append(stream.name.table, rows(ids, stream.table.schema))
            sent.append(Sent(stream.table, ids, answer))

    @rule(name=NAMES, count=SIZES)
    def append_to_the_default_stream(self, name: TableName, count: int) -> None:
        table = self.tables[name]
        if table is None:
            with pytest.raises(Refused) as refused:
                self.engine.append(name, rows([0]))
            assert refused.value.storage is StorageCode.TABLE_NOT_FOUND
            return
        ids = self.ids(count)
        self.store_all([Sent(table, ids, self.engine.append(name, rows(ids, table.schema)))])

    @rule(stream=streams)
    def finalize(self, stream: ModelStream) -> None:
        if self.is_gone(stream):
            return
        assert self.engine.finalize(stream.name) == len(stream.rows)
        if stream.state is State.OPEN:
            stream.state = State.FINALIZED

    @rule(stream=streams, count=SIZES)
    def finalize_after_an_append(self, stream: ModelStream, count: int) -> None:
        if self.is_gone(stream) or stream.state is not State.OPEN:
            return
        sent = self.send(stream, count, None)
        assert self.engine.finalize(stream.name) == len(stream.rows) + count
        self.store_all([sent])
        stream.state = State.FINALIZED

    @precondition(lambda self: self.staged(BUFFERED))
    @rule(at=st.integers(0, 9), share=st.floats(0, 1))
    def flush_some(self, at: int, share: float) -> None:
        found = self.staged(BUFFERED)
        self.flush(found[at % len(found)], share * 0.99)

    @rule(stream=streams, share=st.floats(0, 1.2))
    def flush(self, stream: ModelStream, share: float) -> None:
        if self.is_gone(stream):
            return
        offset = int(len(stream.rows) * share)
        problem = None
        if stream.kind is not BUFFERED:
            problem = StorageCode.INVALID_STREAM_TYPE
        elif stream.state is not State.OPEN:
            problem = StorageCode.STREAM_FINALIZED
        elif offset >= len(stream.rows):
            problem = StorageCode.OFFSET_OUT_OF_RANGE
        if problem is not None:
            with pytest.raises(Refused) as refused:
                self.engine.flush(stream.name, offset)
            assert refused.value.storage is problem
            return
        assert self.engine.flush(stream.name, offset) == offset
        stream.visible = max(stream.visible, offset + 1)

    @rule(name=NAMES, chosen=st.lists(streams, min_size=1, max_size=3, unique_by=id))
    def batch_commit(self, name: TableName, chosen: list[ModelStream]) -> None:
        if self.tables[name] is None:
            return
        expected = [problem for stream in chosen if (problem := self.problem_of(stream, name)) is not None]
        outcome = self.engine.batch_commit(name, [stream.name for stream in chosen])
        assert [problem.storage for problem in outcome.problems] == expected
        assert (outcome.at is None) == bool(expected)
        if not expected:
            for stream in chosen:
                stream.state = State.COMMITTED
                stream.visible = len(stream.rows)

    @precondition(lambda self: self.staged(PENDING))
    @rule(counts=st.lists(SIZES, max_size=3), all_of_them=st.booleans())
    def batch_commit_what_is_ready(self, counts: list[int], all_of_them: bool) -> None:
        """Finalized streams of one table, some of them new; one may be empty."""
        first = self.staged(PENDING)[0]
        chosen = [stream for stream in self.staged(PENDING) if stream.table is first.table]
        for count in counts:
            stream = self.new_stream(first.name.table, PENDING)
            if count % 4:
                self.append(stream, count, True)
            chosen.append(stream)
        for stream in chosen if all_of_them else chosen[1:]:
            self.finalize(stream)
        self.batch_commit(first.name.table, chosen)

    def problem_of(self, stream: ModelStream, name: TableName) -> StorageCode | None:
        if stream.name.table != name or not self.lives(stream):
            return StorageCode.STREAM_NOT_FOUND
        if stream.kind is not PENDING:
            return StorageCode.INVALID_STREAM_TYPE
        if stream.state is State.OPEN:
            return StorageCode.INVALID_STREAM_STATE
        return StorageCode.STREAM_ALREADY_COMMITTED if stream.state is State.COMMITTED else None

    # -- tables --------------------------------------------------------------------------------

    @rule(name=NAMES)
    def add_a_column(self, name: TableName) -> None:
        table = self.tables[name]
        if table is not None and table.schema is SCHEMA:
            self.engine.catalog.update_table(name, lambda found: msgspec.structs.replace(found, schema=WIDER))
            table.schema = WIDER

    @precondition(lambda self: self.known)
    @rule(name=NAMES, create=st.booleans(), count=SIZES)
    def delete_table(self, name: TableName, create: bool, count: int) -> None:
        if self.tables[name] is None:
            return
        holding = [stream for stream in self.known if self.lives(stream) and stream.name.table == name]
        self.engine.catalog.delete_table(name)
        self.tables[name] = None
        if create:
            self.create_table(name)
        # Clients that do not know it yet continue to write to the streams they have.
        for stream in holding:
            if stream.state is State.OPEN and stream.kind is COMMITTED:
                refused = refusal_of(self.send(stream, count, None).answer)
                assert refused is not None
                assert refused.code is Code.NOT_FOUND

    @rule(name=NAMES)
    def create_table(self, name: TableName) -> None:
        if self.tables[name] is None:
            create_table(self.engine.catalog, name)
            self.tables[name] = ModelTable()

    # -- restarts and crashes ------------------------------------------------------------------

    @rule()
    def restart(self) -> None:
        self.engine.close()
        self.start()

    @rule(many=st.lists(st.tuples(streams, SIZES), max_size=6), calls=st.integers(1, 25), after=st.booleans())
    def die_while_appending(self, many: list[tuple[ModelStream, int]], calls: int, after: bool) -> None:
        """The server dies at its nth call: answered appends are stored, others whole or not at all."""
        self.store.add(Fault(nth=calls, when="after" if after else "before"))
        sent: list[Sent] = []
        with suppress(SimulatedCrash):
            self.send_many(sent, many, again=False)
        die(self.engine, self.store)
        self.start()
        for name, table in self.tables.items():
            if table is not None:
                dataset_of(self.inner, name).settle()
        lost: set[ModelStream] = set()
        for append in sent:
            if self.survived(append):
                assert append.stream not in lost, "rows before it are missing"
                self.take_in(append)
            else:
                assert not append.answer.done(), "answered rows are missing"
                if isinstance(append.stream, ModelStream):
                    lost.add(append.stream)

    def survived(self, append: Sent) -> bool:
        """Whether a reader, or the new engine, finds the rows; the invariant checks their values."""
        if isinstance(append.stream, ModelStream) and append.stream.kind is not COMMITTED:
            return append.stream.held.position.durable > len(append.stream.rows)
        table = append.stream.table if isinstance(append.stream, ModelStream) else append.stream
        name = next(name for name, model in self.tables.items() if model is table)
        return append.ids[0] in ids_in(self.inner, name)

    @precondition(lambda self: self.staged(PENDING) or self.staged(BUFFERED))
    @rule(at=st.integers(0, 9), calls=st.integers(1, 15), after=st.booleans())
    def die_while_showing(self, at: int, calls: int, after: bool) -> None:
        """The server dies during a flush or a batch commit: all of its rows are visible, or none."""
        found = self.staged(PENDING) + self.staged(BUFFERED)
        stream = found[at % len(found)]
        if stream.kind is PENDING:
            self.finalize(stream)
        self.store.add(Fault(nth=calls, when="after" if after else "before"))
        with suppress(SimulatedCrash):
            if stream.kind is BUFFERED:
                self.engine.flush(stream.name, len(stream.rows) - 1)
            else:
                self.engine.batch_commit(stream.name.table, [stream.name])
        die(self.engine, self.store)
        self.start()
        shown = stream.held.position.visible
        assert shown in (stream.visible, len(stream.rows))
        if stream.kind is PENDING and shown:
            stream.state = State.COMMITTED
        stream.visible = shown

    # -- invariants ----------------------------------------------------------------------------

    @invariant()
    def streams_are_as_the_model(self) -> None:
        for stream in self.known:
            if not self.lives(stream):
                continue
            position = self.engine.stream(stream.name).position
            count = len(stream.rows)
            assert (position.accepted, position.durable, position.visible) == (count, count, stream.visible)
            assert position.state is stream.state

    @invariant()
    def tables_are_as_the_model(self) -> None:
        for name, table in self.tables.items():
            if table is None:
                continue
            found = ids_in(self.inner, name)
            shown = [stream.rows[: stream.visible] for stream in self.known if stream.table is table]
            assert sorted(found) == sorted(id for part in (*shown, *table.shown) for id in part)
            if name == PLAIN:  # partitions are separate files
                place = {id: at for at, id in enumerate(found)}
                for part in (*shown, *table.shown):
                    assert [place[id] for id in part] == sorted(place[id] for id in part)
            assert is_one_line(self.inner, name)


TestEngine = EngineMachine.TestCase
TestEngine.settings = settings(max_examples=25, stateful_step_count=25, deadline=None, derandomize=True)
