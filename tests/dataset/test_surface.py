"""The public API is complete, sorted and cheap to import, and its errors form one tree."""

from __future__ import annotations

import json
import pickle
import re
import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest

import lode
from lode import errors

HEAVY = ("pyspark", "grpc", "duckdb", "pandas", "obstore", "pyarrow.dataset")
# Twice the time on an idle machine: both cores are busy while the suite runs.
SECONDS = 0.5
# The attributes of errors besides the message.
MORE = {"RangeMissingError": ([(0, 1)],), "HistoryForkedError": (["a", "b"],)}

IMPORT = """
import json, sys, time
wall, cpu = time.perf_counter(), time.process_time()
import lode
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
print(json.dumps({"seconds": min(wall, cpu), "modules": sorted(sys.modules)}))
"""


def test_all_is_complete_and_sorted() -> None:
    public = [
        name
        for name, value in vars(lode).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    ]
    assert lode.__all__ == sorted([*public, "__version__"], key=_rank)


def _rank(name: str) -> tuple[int, str]:
    """Constants, classes, functions, as the linter sorts them."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)


def test_every_error_is_exported() -> None:
    defined = {name for name, value in vars(errors).items() if _is_error(value)}
    assert defined <= set(lode.__all__)


def imported() -> dict[str, Any]:
    """The time and the modules of `import lode`, in its own process."""
    answer = subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(answer.stdout)
    return found


def test_importing_lode_pulls_in_nothing_heavy() -> None:
    modules = imported()["modules"]
    assert [name for name in HEAVY if name in modules] == []


def test_importing_lode_is_quick() -> None:
    """One fast try is enough: on a busy machine the first tries may be slow."""
    assert any(imported()["seconds"] < SECONDS for _ in range(20))


def _is_error(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, errors.LodeError)


def _drawn() -> dict[str, str]:
    """Each error in the drawing, and its base class."""
    parents: dict[str, str] = {}
    branch: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        found = re.match(r"([│├└─ ]*)([A-Z]\w+Error)\b", line)
        if found:
            depth = len(found[1]) // 4
            branch[depth:] = [found[2]]
            if depth:
                parents[found[2]] = branch[depth - 1]
    return parents


def test_the_error_tree_in_the_docstring_is_the_real_one() -> None:
    real = {
        name: next(base.__name__ for base in value.__bases__ if issubclass(base, errors.LodeError))
        for name, value in vars(errors).items()
        if _is_error(value) and value is not errors.LodeError
    }
    assert _drawn() == real


def test_the_tree_names_the_builtin_errors_that_handlers_may_know() -> None:
    drawn = re.findall(r"(\w+Error) \((\w+Error)\)", errors.__doc__ or "")
    assert drawn
    for name, builtin in drawn:
        assert builtin in {base.__name__ for base in getattr(errors, name).__mro__}


@pytest.mark.parametrize("name", sorted(name for name, value in vars(errors).items() if _is_error(value)))
def test_an_error_survives_pickling_with_its_message(name: str) -> None:
    kind = getattr(errors, name)
    again = pickle.loads(pickle.dumps(kind("what happened", *MORE.get(name, ()))))
    assert type(again) is kind
    assert str(again) == "what happened"


def test_details_of_an_error_survive_pickling() -> None:
    again = pickle.loads(pickle.dumps(lode.SchemaViolationError("no", row=3, column="id")))
    assert (again.row, again.column) == (3, "id")
    assert pickle.loads(pickle.dumps(lode.ManifestInvalidError("no", field="files"))).field == "files"
    assert pickle.loads(pickle.dumps(lode.HistoryForkedError("no", ["a", "b"]))).heads == ("a", "b")
    assert pickle.loads(pickle.dumps(lode.RangeMissingError("no", [(0, 1)]))).missing == ((0, 1),)
