"""The least a commit can do: one Parquet file, and one compare-and-swap of a pointer.

Nothing here is a table: no manifest, no statistics, no history but the pointer's.
"""

# ruff: noqa: PTH105, PTH208 - plain os calls: the floor must not pay for path objects

from __future__ import annotations

import fcntl
import importlib
import io
import json
import os
import uuid
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.peers.contender import ORIGIN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from benchmarks.peers.contender import Handle, Place


# Attempts of a put that gets no answer.
_ATTEMPTS: Final = 5


@dataclass(frozen=True, slots=True)
class Floor:
    """Parquet and a pointer; ``durable`` syncs the same two things that Lode does: files and their names."""

    durable: bool = False

    package = "pyarrow"
    floor = None
    by_hand = False

    @property
    def name(self) -> str:
        return "floor, synced" if self.durable else "floor"

    def create(self, place: Place) -> None:
        if place.endpoint is None:
            Path(place.root).mkdir(parents=True)

    def open(self, place: Place) -> Handle:
        return _Bucket(place) if place.endpoint else _Directory(place.root, self.durable)

    def plan(self, place: Place) -> int:
        """List and read every commit, which is what a table without checkpoints does."""
        names = sorted(os.listdir(place.root))
        commits = [name for name in names if name.endswith(".json")]
        return sum(len(json.loads(Path(place.root, name).read_bytes())["add"]) for name in commits)

    def history(self, place: Place) -> int:
        return len(list(self._files(place)))

    def read(self, place: Place) -> pa.Table:
        import pyarrow as pa
        import pyarrow.parquet as pq

        return pa.concat_tables(
            pq.read_table(pa.BufferReader(content()), columns=ORIGIN) for content in self._files(place)
        )

    def _files(self, place: Place) -> Iterator[Callable[[], bytes]]:
        """The data files there are: the pointer names but the last."""
        if place.endpoint:
            yield from _Bucket(place).files()
            return
        for path in Path(place.root).glob("*.parquet"):
            yield path.read_bytes

    def build(self, place: Place, data: pa.Table, start: int, stop: int) -> None:
        for commit in range(start, stop):
            record = {"add": [{"path": f"{uuid.uuid4()}.parquet", "size": 1000, "rows": 1}]}
            Path(place.root, f"{commit:020d}.json").write_text(json.dumps(record))


@dataclass(slots=True)
class _Directory:
    root: str
    durable: bool

    def append(self, data: pa.Table) -> None:
        name = f"{uuid.uuid4()}.parquet"
        put(f"{self.root}/{name}", encoded(data), durable=self.durable)
        swap(f"{self.root}/latest", name.encode(), durable=self.durable)

    def refresh(self) -> None:
        """Under a lock there is nothing to lose."""


class _Bucket:
    def __init__(self, place: Place) -> None:
        self._obstore: Any = importlib.import_module("obstore")
        self._exceptions: Any = importlib.import_module("obstore.exceptions")
        store: Any = importlib.import_module("obstore.store")
        bucket, _, self._prefix = place.root.removeprefix("s3://").partition("/")
        self._client = store.S3Store(
            bucket,
            endpoint=place.endpoint,
            region="us-east-1",
            access_key_id="test",
            secret_access_key="test",
            client_options={"allow_http": True},
            retry_config={"max_retries": 0},
        )

    def append(self, data: pa.Table) -> None:
        name = f"{self._prefix}/{uuid.uuid4()}.parquet"
        self._create(name, encoded(data))
        while not self._swap(name.encode()):
            pass

    def refresh(self) -> None:
        """Each swap reads the pointer first."""

    def files(self) -> Iterator[Callable[[], bytes]]:
        for page in self._obstore.list(self._client, prefix=self._prefix):
            for entry in page:
                if entry["path"].endswith(".parquet"):
                    yield partial(self._get, entry["path"])

    def _get(self, path: str) -> bytes:
        return bytes(self._obstore.get(self._client, path).bytes())

    def _create(self, path: str, content: bytes) -> None:
        """Put a new object. After a lost answer it may be there; another name would double it."""
        for remaining in reversed(range(_ATTEMPTS)):
            try:
                self._put(path, content, "create")
            except self._exceptions.AlreadyExistsError:
                return
            except self._exceptions.GenericError:
                if not remaining:
                    raise
            else:
                return

    def _swap(self, content: bytes) -> bool:
        pointer = f"{self._prefix}/latest"
        try:
            meta = self._obstore.get(self._client, pointer).meta
            mode: Any = {"e_tag": meta["e_tag"]}
        except FileNotFoundError:
            mode = "create"
        exceptions = self._exceptions
        try:
            self._put(pointer, content, mode)
        except (exceptions.AlreadyExistsError, exceptions.PreconditionError, exceptions.GenericError):
            return False  # lost, or without an answer: swapping to the same name again is harmless
        return True

    def _put(self, path: str, content: bytes, mode: Any) -> None:
        self._obstore.put(self._client, path, content, mode=mode, use_multipart=False)


def encoded(data: pa.Table) -> bytes:
    """The table as one Parquet file."""
    import pyarrow.parquet as pq

    sink = io.BytesIO()
    pq.write_table(data, sink, compression="zstd")
    return sink.getvalue()


def put(path: str, content: bytes, *, durable: bool) -> None:
    """A new file; its name is synced by the swap that follows."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        os.write(descriptor, content)
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def swap(pointer: str, content: bytes, *, durable: bool) -> None:
    """Replace the pointer under a lock, whatever it holds."""
    lock = os.open(f"{pointer}.lock", os.O_RDWR | os.O_CREAT)
    temporary = f"{pointer}.{uuid.uuid4()}"
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with suppress(FileNotFoundError):
            current = os.open(pointer, os.O_RDONLY)
            os.read(current, 1024)
            os.close(current)
        put(temporary, content, durable=durable)
        os.replace(temporary, pointer)
    finally:
        os.close(lock)
    if durable:
        directory = os.open(pointer.rpartition("/")[0], os.O_RDONLY | os.O_DIRECTORY)
        os.fsync(directory)
        os.close(directory)
