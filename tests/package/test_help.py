"""What ``help()`` shows can be read."""

from __future__ import annotations

import inspect
import pickle
import re
from dataclasses import replace
from typing import is_typeddict

import pytest

import lode
from lode.runtime import REAL

CLASSES = [
    name
    for name, found in vars(lode).items()
    if name in lode.__all__ and inspect.isclass(found) and not issubclass(found, Exception)
    # A dictionary with types has no signature.
    if not is_typeddict(found)
]


def signatures_of(kind: type) -> list[str]:
    methods = [getattr(kind, name) for name in vars(kind) if not name.startswith("_")]
    return [str(inspect.signature(found)) for found in (kind, *methods) if callable(found)]


@pytest.mark.parametrize("name", CLASSES)
def test_no_signature_shows_an_address_or_a_built_in_function(name: str) -> None:
    for signature in signatures_of(getattr(lode, name)):
        assert re.search(r"<(function|built-in|bound)| at 0x", signature) is None


def test_the_signature_of_a_dataset_names_its_default_runtime() -> None:
    assert str(inspect.signature(lode.Dataset)).endswith("runtime: 'Runtime' = lode.runtime.REAL) -> 'None'")


def test_a_runtime_of_a_simulation_does_not_pass_for_the_real_one() -> None:
    other = replace(REAL, random=lambda: 0.5)
    assert repr(REAL) == "lode.runtime.REAL"
    assert repr(other) != repr(REAL)
    assert pickle.loads(pickle.dumps(REAL)) is REAL
