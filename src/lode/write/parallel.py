"""Encode several files of one write at the same time; if one fails, the others stop and none remains."""

from __future__ import annotations

import os
import threading
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from lode.codec.protocol import is_parallel
from lode.lazy import pa

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lode.codec.protocol import Chunk, Codec
    from lode.format.manifest import FileRef
    from lode.write.file import RecordFile

    Each: TypeAlias = Callable[[Callable[[Any], Any], Iterable[Any]], list[Any]]

# Past these a machine with many cores would make more files of one write than anybody wants to read.
MOST_PARTS: Final = 16


class FileJob(NamedTuple):
    """One file to be written: where, and what."""

    partition: str
    suffix: str
    chunks: Iterable[Chunk]


def parts_of(data: Any, codec: Codec | None) -> list[tuple[int, Any]]:
    """Cut a table into contiguous parts worth a file and a core each; any other data is one part.

    Only a table is here as a whole, so only of a table can a later part be written before an earlier one
    is over without holding it in memory.

    Returns:
        The parts, each with the number of its first row.
    """
    if not is_parallel(codec) or not isinstance(data, pa.Table):
        return [(0, data)]
    # The size of whole buffers is known at once, that of the rows in them takes a look at every column.
    if data.get_total_buffer_size() < 2 * codec.bytes_per_file:
        return [(0, data)]
    count = min(data.nbytes // codec.bytes_per_file, _cores(), MOST_PARTS, data.num_rows)
    if count < 2:
        return [(0, data)]
    cuts = [data.num_rows * number // count for number in range(count + 1)]
    return [(start, data.slice(start, stop - start)) for start, stop in pairwise(cuts)]


def write_files(
    jobs: Iterable[FileJob],
    open_file: Callable[[str, str], RecordFile],
    discard: Callable[[list[FileRef]], None],
    each: Each,
) -> list[FileRef]:
    """Write every file, or raise the first error with nothing left behind.

    Args:
        jobs: The files.
        open_file: Opens one, given its partition and suffix.
        discard: Removes files that were finished in vain.
        each: Runs a task over the jobs, in threads or one by one.

    Returns:
        The files in the order of their paths.
    """
    finished: list[FileRef] = []
    stopped = threading.Event()

    def write(job: FileJob) -> None:
        file = open_file(job.partition, job.suffix)
        try:
            for chunk in job.chunks:
                if stopped.is_set():
                    file.abort()
                    return
                file.write(chunk)
            finished.append(file.finish())
        except BaseException:
            stopped.set()
            file.abort()
            raise
        if stopped.is_set():
            # Whoever waited was interrupted and may have cleaned up before this file was there.
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
