"""The pipelines of a lake: what each reads and writes, what waits, and how its last run ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from lode.errors import LodeError
from lode.lineage.flow import flows
from lode.lineage.runs import FOLDER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lode.lineage.flow import Flow
    from lode.store.protocol import Store
    from lode.ui.datasets import Datasets

MAX_PIPELINES: Final = 200


def has_pipelines(store: Store) -> bool:
    """Whether a project has run here. Reads no history."""
    return next(iter(store.list(FOLDER)), None) is not None


def pipelines(store: Store, datasets: Datasets) -> dict[str, Any]:
    """The pipelines, and their graph with a column and a row for each node."""
    found = flows(store)
    shown = found[:MAX_PIPELINES]
    return {
        "total": len(found),
        "pipelines": [_described(flow) for flow in shown],
        "graph": _graph(datasets, shown),
    }


def _described(flow: Flow) -> dict[str, Any]:
    lags = [each.oldest for each in flow.inputs if each.oldest is not None]
    waits = [each.waiting for each in flow.inputs if each.waiting is not None]
    return {
        "name": flow.pipeline,
        "sink": flow.sink,
        "also": flow.also,
        "snapshot": flow.snapshot,
        "made_at": flow.made_at,
        "rows": flow.rows,
        "inputs": [msgspec.to_builtins(each) for each in flow.inputs],
        "tables": flow.tables,
        "waiting": sum(waits) if waits else None,
        "oldest": min(lags) if lags else None,
        "sources": [source.words for source in flow.lineage.sources] if flow.lineage is not None else [],
        "steps": flow.lineage.steps if flow.lineage is not None else "",
        "expectations": [msgspec.to_builtins(each) for each in flow.expectations],
        "last_run": None if flow.last_run is None else msgspec.to_builtins(flow.last_run),
    }


def _graph(datasets: Datasets, found: Sequence[Flow]) -> dict[str, Any]:
    edges: list[tuple[str, str]] = []
    for flow in found:
        here = f"pipeline {flow.pipeline}"
        edges += [(f"dataset {each.dataset}", here) for each in flow.inputs]
        edges += [(f"dataset {dataset}", here) for dataset in flow.tables.values()]
        edges += [(here, f"dataset {sink}") for sink in (flow.sink, *flow.also) if sink is not None]
    columns = _columns(edges)
    rows: dict[int, int] = {}
    nodes = []
    # A node is beside those that it follows, as far as there is room.
    places: dict[str, float] = {}
    for node in sorted(columns, key=lambda node: (columns[node], node)):
        before = [places[start] for start, end in edges if end == node and start in places]
        places[node] = sum(before) / len(before) if before else len(places)
    for node in sorted(columns, key=lambda node: (columns[node], places[node], node)):
        kind, _, name = node.partition(" ")
        row = rows.get(columns[node], 0)
        rows[columns[node]] = row + 1
        nodes.append(
            {
                "id": node,
                "kind": kind,
                "name": name,
                "column": columns[node],
                "row": row,
                "rows": _rows(datasets, name) if kind == "dataset" else None,
            }
        )
    return {"nodes": nodes, "edges": [{"from": start, "to": end} for start, end in dict.fromkeys(edges)]}


def _columns(edges: Sequence[tuple[str, str]]) -> dict[str, int]:
    """The column of each node: one further than the last of those before it. A ring ends somewhere."""
    columns = {node: 0 for edge in edges for node in edge}
    for _ in range(len(columns)):
        moved = False
        for start, end in edges:
            if columns[end] <= columns[start] < len(columns):
                columns[end] = columns[start] + 1
                moved = True
        if not moved:
            break
    return columns


def _rows(datasets: Datasets, name: str) -> int | None:
    try:
        return datasets.look(name).rows
    except LodeError:
        return None  # in another store, or damaged
