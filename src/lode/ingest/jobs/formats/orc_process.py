"""Reads an ORC file in a process of its own and writes it to the standard output as an Arrow stream.

A damaged file can crash Arrow's reader of ORC, or make it ask for any amount of memory.
"""

from __future__ import annotations

import resource
import sys
from contextlib import suppress
from typing import Any, Final, cast

# The address space, of which the libraries take about one GiB.
_MAX_MEMORY_BYTES: Final = 6 << 30
_BATCH_ROWS: Final = 1 << 14


def main(path: str, part: str) -> int:
    """Write the schema, and the rows if ``part`` is ``rows``; returns the exit code."""
    with suppress(ValueError, OSError):  # not every system has this limit
        resource.setrlimit(resource.RLIMIT_AS, (_MAX_MEMORY_BYTES, _MAX_MEMORY_BYTES))
    import pyarrow as pa
    import pyarrow.orc as orc

    try:
        file = orc.ORCFile(path)
        with pa.ipc.new_stream(cast("Any", sys.stdout.buffer), file.schema) as out:
            for number in range(file.nstripes if part == "rows" else 0):
                stripe = file.read_stripe(number)
                stripe.validate(full=True)
                for start in range(0, stripe.num_rows, _BATCH_ROWS):
                    out.write_batch(stripe.slice(start, _BATCH_ROWS))
    except Exception as error:  # Arrow raises errors of many kinds for damaged files
        print(str(error).split("\n", 1)[0] or type(error).__name__, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
