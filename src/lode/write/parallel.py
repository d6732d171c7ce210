"""Encode several files of one write at the same time; if one fails, the others stop and none remains.

A table is cut into one part for each core. A stream is cut into consecutive parts of a fixed size: while one
part is encoded, the next is pulled. Either way parts are contiguous, and the names of their files sort alike.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from lode.codec.columnar import to_batch
from lode.codec.protocol import is_parallel
from lode.codec.records import chunk_bytes
from lode.lazy import pa

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from lode.codec.protocol import Chunk, Codec
    from lode.format.manifest import FileRef
    from lode.write.open_files import RollingFile

    Each: TypeAlias = Callable[[Callable[[Any], Any], Iterable[Any]], list[Any]]

# Files that a table is cut into at most for the sake of parallel encoding: readers pay for every file.
MAX_TABLE_PARTS: Final = 16
# Data that ``read_ahead`` holds: about a row group, so that reading goes on while one is encoded. A stream of
# less than the second is not worth a thread.
MAX_AHEAD_BYTES: Final = 32 << 20
MIN_AHEAD_BYTES: Final = 4 << 20
# Parts of a stream that are in memory at a time, each of a codec's ``bytes_per_file``. One thread pulls them
# all and cannot keep more encoders busy.
MAX_STREAM_PARTS: Final = 4


class FileJob(NamedTuple):
    """A file to be written, or several if its rows exceed the target size."""

    partition: str
    suffix: str
    chunks: Iterable[Chunk]


def parts_of(data: Any, codec: Codec | None) -> list[tuple[int, Any]]:
    """Cut a table into contiguous parts worth a file and a core each; any other data is one part.

    Returns:
        The parts, each with the number of its first row.
    """
    if not is_parallel(codec) or not isinstance(data, pa.Table):
        return [(0, data)]
    # The size of whole buffers is known at once, that of the rows in them takes a look at every column.
    if data.get_total_buffer_size() < 2 * codec.bytes_per_file:
        return [(0, data)]
    count = min(data.nbytes // codec.bytes_per_file, _cores(), MAX_TABLE_PARTS, data.num_rows)
    if count < 2:
        return [(0, data)]
    cuts = [data.num_rows * number // count for number in range(count + 1)]
    return [(start, data.slice(start, stop - start)) for start, stop in pairwise(cuts)]


class StreamPart(NamedTuple):
    """Consecutive chunks of a stream, and whether they are its last."""

    chunks: deque[Chunk]
    last: bool


def stream_parts(chunks: Iterable[Chunk], bytes_per_part: int) -> Iterator[StreamPart]:
    """Cut a stream into parts of about this size; one without chunks is one part without chunks.

    Arrow data gets the schema of the first chunk, as it does within a file.
    """
    part: deque[Chunk] = deque()
    held = row = 0
    schema: pa.Schema | None = None
    for chunk in chunks:
        if held >= bytes_per_part:
            yield StreamPart(part, last=False)
            part, held = deque(), 0
        if not isinstance(chunk, list):
            schema = schema or chunk.schema
            chunk = to_batch(chunk, schema, first_row=row)
        held += chunk_bytes(chunk)
        part.append(chunk)
        row += len(chunk)
    yield StreamPart(part, last=True)


def drain(chunks: deque[Chunk]) -> Iterator[Chunk]:
    """Yield chunks and let go of each, so that a part gives memory back while it is encoded."""
    while chunks:
        yield chunks.popleft()


def read_ahead(rows: Iterable[Any]) -> Iterator[Any]:
    """Yield the batches of a stream, which another thread pulls meanwhile; records are pulled on this one.

    An error of the stream is raised where its batch would be. No thread is running when this ends.
    """
    pulled = iter(rows)
    seen = 0
    for item in pulled:
        yield item
        # Python records are made and encoded under the same lock.
        seen += item.nbytes if isinstance(item, pa.RecordBatch) else 0
        if seen >= MIN_AHEAD_BYTES:
            break
    else:
        return
    waiting: deque[Future[pa.RecordBatch | None]] = deque()
    with ThreadPoolExecutor(1, thread_name_prefix="lode-read") as thread:
        try:
            size = item.nbytes
            while True:
                # Batches of one stream are alike.
                while len(waiting) <= MAX_AHEAD_BYTES // max(size, 1 << 16):
                    waiting.append(thread.submit(next, pulled, None))
                found = waiting.popleft().result()
                if found is None:
                    return
                size = found.nbytes
                yield found
        finally:
            for future in waiting:
                future.cancel()


def stream_threads() -> int:
    """How many parts of a stream are pulled or encoded at the same time."""
    return min(_cores(), MAX_STREAM_PARTS)


def pipelined(task: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
    """Run ``task`` over items in threads while later items are still being made, on this thread.

    At most ``stream_threads`` items exist at a time, including the one that is being made. An error of a task
    or of the items' iterator is raised when no task is running any more.
    """
    done: list[Future[Any]] = []
    running: set[Future[Any]] = set()
    with ThreadPoolExecutor(stream_threads(), thread_name_prefix="lode-encode") as threads:
        for item in items:
            running.add(threads.submit(task, item))
            while len(running) >= stream_threads():
                ended, running = wait(running, return_when=FIRST_COMPLETED)
                done += ended
                for future in ended:
                    future.result()
        return [future.result() for future in [*done, *running]]


def write_files(
    jobs: Iterable[FileJob],
    open_file: Callable[[str, str, list[FileRef]], RollingFile],
    discard: Callable[[list[FileRef]], None],
    each: Each,
) -> list[FileRef]:
    """Write every file. If one fails, remove the others and raise the first error.

    Args:
        jobs: The files.
        open_file: Opens the files of a job, given its partition, its suffix and the list of finished files.
        discard: Removes files of a write that failed.
        each: Runs a task over the jobs, in threads or one by one.

    Returns:
        The files in the order of their paths.
    """
    finished: list[FileRef] = []
    stopped = threading.Event()

    def write(job: FileJob) -> None:
        file = open_file(job.partition, job.suffix, finished)
        try:
            for chunk in job.chunks:
                if stopped.is_set():
                    break
                file.write(chunk)
            else:
                file.finish()
        except BaseException:
            stopped.set()
            file.abort()
            raise
        if stopped.is_set():
            # The caller was interrupted, and may have cleaned up before these files existed.
            file.abort()
            discard(finished[:])

    try:
        each(write, jobs)
    except BaseException:
        stopped.set()
        discard(finished[:])
        raise
    return sorted(finished, key=lambda file: file.path)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
