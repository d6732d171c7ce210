"""The graph of pipelines: order, rings, shared sinks and the choice of a part."""

from __future__ import annotations

import pytest

import lode
from lode.pipeline.graph import Graph, Node


def node(reads: str, writes: str, replaces: str = "") -> Node:
    return Node(*(frozenset(("lake", name) for name in names.split()) for names in (reads, writes, replaces)))


def medallion() -> Graph:
    """Raw → silver → gold → report, raw → audit, and one that has nothing to do with them."""
    return Graph(
        {
            "report": node("gold pages", "report"),
            "gold": node("silver", "gold"),
            "silver": node("raw", "silver bad"),
            "audit": node("raw bad", "audit"),
            "other": node("x", "y"),
        }
    )


def test_each_pipeline_comes_after_those_it_reads_from() -> None:
    graph = medallion()
    assert graph.order == ["silver", "gold", "report", "audit", "other"]
    assert graph.upstream["audit"] == {"silver"}  # it reads what silver leaves out
    assert graph.upstream["other"] == frozenset()


@pytest.mark.parametrize(
    ("wanted", "chosen"),
    [
        ([], ["silver", "gold", "report", "audit", "other"]),
        (["gold"], ["gold"]),
        (["gold+"], ["gold", "report"]),
        (["+gold"], ["silver", "gold"]),
        (["+gold+"], ["silver", "gold", "report"]),
        (["other", "report"], ["report", "other"]),
        (["+audit,other gold"], ["silver", "gold", "audit", "other"]),
        (["silver+"], ["silver", "gold", "report", "audit"]),
    ],
)
def test_a_part_of_the_graph_is_chosen_by_names_and_plus_signs(wanted: list[str], chosen: list[str]) -> None:
    assert medallion().select(wanted) == chosen


def test_a_name_that_does_not_exist_is_refused_with_one_that_does() -> None:
    with pytest.raises(lode.NotFoundError, match="no pipeline 'golde': did you mean 'gold'"):
        medallion().select(["golde+"])


def test_a_ring_is_refused_with_its_members_in_order() -> None:
    ring = {"a": node("3", "1"), "b": node("1", "2"), "c": node("2", "3"), "d": node("3", "4")}
    with pytest.raises(
        lode.InvalidOptionError, match=r"in a ring: (a → b → c → a|b → c → a → b|c → a → b → c)$"
    ):
        Graph(ring)


def test_a_pipeline_that_reads_its_own_sink_is_refused() -> None:
    with pytest.raises(lode.InvalidOptionError, match="pipeline 'p' reads dataset 'x' and writes to it"):
        Graph({"p": node("x", "x")})


def test_two_may_append_to_one_dataset_but_not_if_one_replaces_rows() -> None:
    assert Graph({"a": node("x", "z"), "b": node("y", "z")}).order == ["a", "b"]
    with pytest.raises(
        lode.InvalidOptionError, match="'b' replaces rows of dataset 'z', which 'a' writes too"
    ):
        Graph({"a": node("x", "z"), "b": node("y", "z", "z")})
