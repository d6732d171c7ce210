"""The command ``lode``: ``lode spark run pipeline.yaml``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from lode.errors import MissingDependencyError

if TYPE_CHECKING:
    from collections.abc import Sequence

USAGE = "usage: lode spark run PIPELINE.yaml [--once] [--json]"


def main(arguments: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] in (["-h"], ["--help"]):
        print(USAGE)
        return 0
    if given[:1] != ["spark"]:
        print(USAGE, file=sys.stderr)
        return 2
    try:
        from lode.spark.__main__ import main as spark
    except MissingDependencyError as error:
        print(f"lode: {error}", file=sys.stderr)
        return 1
    return spark(given[1:])
