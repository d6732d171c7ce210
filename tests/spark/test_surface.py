"""What there is to call, what it needs, and what the page says of it."""

from __future__ import annotations

from pathlib import Path

import pytest

import lode
import lode.spark
from lode.spark import options

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


def test_options_have_values_of_a_kind() -> None:
    given = {"targetFileBytes": "2 MiB", "partitionBy": " a, b ,", "idempotencyKey": '["w", "k"]'}
    found = options.Options(given)
    assert found.size("targetFileBytes", 0) == 2 << 20
    assert found.names("PARTITIONBY") == ["a", "b"]
    assert found.key("idempotencyKey") == ("w", "k")
    assert options.Options({"idempotencyKey": "k"}).key("idempotencyKey") == ("", "k")
    with pytest.raises(lode.InvalidOptionError, match="option 'dataset' is empty"):
        options.Options({"dataset": " "}).text("dataset")


def test_the_old_name_of_a_dataset_reference_still_works() -> None:
    with pytest.warns(DeprecationWarning, match=r"use lode\.spark\.DatasetRef"):
        from lode.spark.place import Place
    assert Place is lode.spark.DatasetRef
