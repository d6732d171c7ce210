"""A GEOGRAPHY value through the server."""

from __future__ import annotations

import json
from typing import Any
from urllib.request import Request, urlopen

import lode
from lode.ingest.server import RunningServer
from lode.ingest.settings import Settings

ROWS = {"rows": [{"json": {"place": '{"type": "Point", "coordinates": [1, 2]}'}}]}


def post(url: str, body: dict[str, Any]) -> Any:
    request = Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    with urlopen(request, timeout=120) as answer:
        return json.load(answer)


with RunningServer(Settings(root="lake", port=0, http_port=0)) as server:
    base = f"{server.http_url}/bigquery/v2/projects/p/datasets"
    reference = {"projectId": "p", "datasetId": "d"}
    post(base, {"datasetReference": reference})
    fields = {"fields": [{"name": "place", "type": "GEOGRAPHY"}]}
    post(f"{base}/d/tables", {"tableReference": {**reference, "tableId": "t"}, "schema": fields})
    assert "insertErrors" not in post(f"{base}/d/tables/t/insertAll", ROWS)
assert lode.Dataset("p.d.t", "lake").scan().read_all().to_pylist() == [{"place": "POINT(1 2)"}]
