"""The other end of ``measure.in_child``: one call, then the process is over."""

from __future__ import annotations

import importlib
import json
import sys


def main() -> None:
    order = json.loads(sys.stdin.read())
    function = getattr(importlib.import_module(order["module"]), order["function"])
    result = function(**order["arguments"])
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
