"""Run statements, and print what each says about a missing extra: missing.py '["import lode.ui"]'."""

from __future__ import annotations

import json
import sys

from lode.errors import MissingDependencyError
from lode.ingest.status import Refused


def said(statement: str) -> str | None:
    try:
        exec(statement, {})
    except MissingDependencyError as error:
        return str(error)
    except Refused as error:
        return str(error).removesuffix(".")
    return None


print(json.dumps({statement: said(statement) for statement in json.loads(sys.argv[1])}))
