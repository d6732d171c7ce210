"""Datasets as views: SQL on the newest snapshots, refreshed when the caller says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException

import lode
import lode.spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(params=["classic", "connect"])
def session(request: pytest.FixtureRequest) -> SparkSession:
    found: SparkSession = request.getfixturevalue("spark" if request.param == "classic" else "connect")
    return found


def test_views_read_the_newest_snapshots_when_they_are_refreshed(session: SparkSession, lake: str) -> None:
    visits = lode.Dataset("visits", lake, codec="parquet")
    first = visits.write(pa.table({"page": ["/"], "n": [1]}))
    lode.Dataset("page-names", lake, codec=lode.JSONL()).write([{"page": "/", "name": "home"}])
    lode.Dataset("pictures", lake).write(b"not rows")
    attached = lode.spark.attach(session, lake)
    assert attached.snapshots.keys() == {"visits", "page-names"}
    join = "SELECT name, sum(n) AS n FROM visits JOIN `page-names` USING (page) GROUP BY name"
    assert session.sql(join).collect() == [("home", 1)]

    second = visits.write(pa.table({"page": ["/"], "n": [2]}))
    lode.Dataset("later", lake, codec="parquet").write(pa.table({"x": [1]}))
    assert session.sql(join).collect() == [("home", 1)]
    assert sorted(attached.refresh()) == ["later", "visits"]
    assert attached.refresh() == []
    assert attached.snapshots["visits"] == second.id
    assert session.sql(join).collect() == [("home", 3)]
    assert session.table("later").count() == 1

    attached.view("visits_then", "visits", as_of=first)
    assert session.table("visits_then").count() == attached.read("visits", as_of=1).count() == 1
    assert attached.read("visits", since=first).count() == 1
    with pytest.raises(lode.InvalidOptionError, match="reads the newest snapshot"):
        attached.view("visits", "visits", as_of=first)

    lode.open_dataset("later", lake).drop()
    attached.refresh()
    with pytest.raises(AnalysisException, match="later"):
        session.table("later").count()
    attached.detach()
    session.catalog.dropTempView("visits_then")
    with pytest.raises(AnalysisException, match="visits"):
        session.table("visits").count()


def test_only_the_datasets_asked_for_get_views(spark: SparkSession, lake: str) -> None:
    assert lode.spark.attach(spark, lake).snapshots == {}
    for name in ("visits", "pages"):
        lode.Dataset(name, lake, codec="parquet").write(pa.table({"n": [1]}))
    attached = lode.spark.attach(spark, lake, datasets=["visits"], prefix="lake_")
    assert spark.sql("SELECT n FROM lake_visits").first() == (1,)
    assert list(attached.snapshots) == ["visits"]
    attached.detach()
    with pytest.raises(lode.NotFoundError, match=r"no dataset 'visit' in .*: did you mean 'visits'"):
        lode.spark.attach(spark, lake, datasets=["visit"])
