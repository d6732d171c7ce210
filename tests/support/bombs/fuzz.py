"""Let Atheris look for bytes that reach new code: ``python -m support.bombs.fuzz TARGET -max_total_time=60``.

Only the decoders and sqlglot's parser are instrumented: they are Python, and other code would slow it down.
"""

from __future__ import annotations

import logging
import sys
import tempfile
from pathlib import Path

import atheris  # type: ignore[import-not-found,import-untyped,unused-ignore]


def main() -> None:
    name = sys.argv.pop(1)
    logging.disable(logging.CRITICAL)
    instrumented = ["lode.ingest.decode", "lode.ingest.jobs.formats", "lode.sql", "sqlglot"]
    with atheris.instrument_imports(include=instrumented):
        from support.bombs import targets
    target, seeds = targets.TARGETS[name]
    with tempfile.TemporaryDirectory() as folder:
        for number, seed in enumerate(seeds):
            Path(folder, str(number)).write_bytes(seed)
        atheris.Setup([*sys.argv, folder], lambda data: targets.call(target, data))
        atheris.Fuzz()


if __name__ == "__main__":
    main()
