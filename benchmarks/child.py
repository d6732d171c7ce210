"""The other end of ``measure.in_child``: one call, then the process is over."""

from __future__ import annotations

import importlib
import json
import sys
import traceback
from typing import Any

from benchmarks.rounds import ChildError, MissingError, VerificationError


def main() -> None:
    order = json.loads(sys.stdin.read())
    answer: dict[str, Any]
    try:
        function = getattr(importlib.import_module(order["module"]), order["function"])
        answer = {"result": function(**order["arguments"])}
    except (VerificationError, MissingError) as error:
        answer = {"kind": type(error).__name__, "text": str(error)}
    except Exception as error:
        traceback.print_exc()
        answer = {"kind": ChildError.__name__, "text": f"{type(error).__name__}: {error}"}
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
