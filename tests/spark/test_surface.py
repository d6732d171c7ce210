"""What there is to call, what it needs, and what the page says of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql.types import StructType

import lode
import lode.spark
from lode.pipeline import Pipeline
from lode.spark import options
from lode.spark.session import setting_before, temporary_setting

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

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


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        (
            "overwriteSchema",
            r"'overwriteSchema' is unknown: an overwrite keeps the columns; mergeSchema",
        ),
        ("timestampAsOf", r"option 'timestampAsOf' is unknown: say asOf"),
        ("start-snapshot-id", r"say since"),
        ("startingversion", r"option 'startingVersion' is unknown: say since and onRemoval"),
        ("ignoreDeletes", r"say onRemoval = ignore"),
        ("datset", r"option 'datset' is unknown: did you mean 'dataset'\?"),
        ("nothing like it", r"there are path, dataset, "),
    ],
)
def test_an_unknown_option_is_refused_with_what_it_is_called_here(name: str, remedy: str) -> None:
    with pytest.raises(lode.InvalidOptionError, match=remedy):
        options.Options({name: "true"})


def test_the_old_name_of_a_dataset_reference_still_works() -> None:
    with pytest.warns(DeprecationWarning, match=r"use lode\.spark\.DatasetRef"):
        from lode.spark.place import Place
    assert Place is lode.spark.DatasetRef


def test_secrets_are_not_shown() -> None:
    secret = {"store.secret_access_key": "hush", "store.client_options.token": "hush"}
    ref = lode.spark.DatasetRef("s3://bucket/lake?signature=hush", "d", partitionBy="day", **secret)
    sink = {"path": "s3://bucket/lake", "dataset": "out", **secret}
    shown = repr(Pipeline("p", ref, sink, tables={"t": {**sink, "dataset": "t"}}))
    assert "hush" not in shown + repr(ref) + repr(options.Options(ref.given)) + str(ref)
    assert "'partitionBy': 'day'" in shown
    assert "store.secret_access_key" in shown
    assert ref.given["store.secret_access_key"] == "hush"


@pytest.mark.parametrize("given", [{}, {"provider": "lode", "location": "file:/x", "dataset": "d"}])
def test_a_table_of_the_catalog_is_refused_with_the_alternative(given: dict[str, str]) -> None:
    source = lode.spark.LodeDataSource(given)
    calls: list[Callable[[], Any]] = [
        source.schema,
        lambda: source.reader(StructType()),
        lambda: source.writer(StructType(), False),
    ]
    for call in calls:
        with pytest.raises(lode.InvalidOptionError, match=r"catalog cannot use lode.*lode\.spark\.attach"):
            call()


def test_spark_says_so_of_create_table(spark: SparkSession, lake: str) -> None:
    with pytest.raises(AnalysisException, match=r"catalog cannot use lode.*lode\.spark\.attach"):
        spark.sql(f"CREATE TABLE tables_are_refused USING lode OPTIONS (path '{lake}', dataset 'd')")
    assert not spark.catalog.tableExists("tables_are_refused")


def test_settings_that_several_threads_change_end_as_they_were(spark: SparkSession) -> None:
    name = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
    before = spark.conf.get(name)
    first, second = (temporary_setting(spark, name, value) for value in ("8", "9"))
    with first:
        second.__enter__()
        assert (spark.conf.get(name), setting_before(spark, name)) == ("9", before)
    assert spark.conf.get(name) == "9"
    second.__exit__(None, None, None)
    assert spark.conf.get(name) == before
