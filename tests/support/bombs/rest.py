"""Bodies and queries of REST calls that ask for much time or memory."""

from __future__ import annotations

import json
from typing import Any, Final

from support.bombs.served import BASE
from support.bombs.text import packed_repeats

_DATASET: Final = f"{BASE}/datasets/d"
_SIZE: Final = 9_500_000
# Every route that reads a body.
ROUTES: Final = (
    ("POST", f"{BASE}/datasets"),
    ("PATCH", _DATASET),
    ("PUT", _DATASET),
    ("POST", f"{_DATASET}/tables"),
    ("PATCH", f"{_DATASET}/tables/t"),
    ("PUT", f"{_DATASET}/tables/t"),
    ("POST", f"{_DATASET}/tables/t/insertAll"),
    ("POST", f"{_DATASET}/tables/t:testIamPermissions"),
    ("POST", f"{_DATASET}/tables/t:setIamPolicy"),
    ("POST", f"{_DATASET}/routines"),
    ("PUT", f"{_DATASET}/routines/r"),
    ("POST", f"{BASE}/queries"),
    ("POST", f"{BASE}/jobs"),
    ("POST", f"/upload{BASE}/jobs?uploadType=resumable"),
)
# Bodies of any route: each is thrown at all of them.
BODIES: Final[dict[str, Any]] = {
    "a body of lists in each other": lambda: b'{"a":' + b"[" * (_SIZE // 2) + b"]" * (_SIZE // 2) + b"}",
    "a body of objects in each other": lambda: b'{"a":' * (_SIZE // 6) + b"1" + b"}" * (_SIZE // 6),
    "a body of many keys": lambda: b"{" + b",".join(b'"k%d":1' % n for n in range(750_000)) + b"}",
    "a body of equal keys": lambda: b"{" + b",".join([b'"a":1'] * (_SIZE // 6)) + b"}",
    "a body of many zeros": lambda: b'{"a":[' + b"0," * (_SIZE // 2) + b"0]}",
    "a body of many fractions": lambda: b'{"a":[' + b".1,".replace(b".", b"0.") * (_SIZE // 4) + b"0]}",
    "a body of huge exponents": lambda: b'{"a":[' + b"1e999999999," * (_SIZE // 12) + b"0]}",
    "a body of one number": lambda: b'{"a":' + b"9" * _SIZE + b"}",
    "a body of one fraction": lambda: b'{"a":0.' + b"9" * _SIZE + b"}",
    "a body of one text": lambda: b'{"a":"' + b"\\u0041" * (_SIZE // 6) + b'"}',
    "a body of empty objects": lambda: b'{"a":[' + b"{}," * (_SIZE // 3) + b"{}]}",
    "a body that is not JSON": lambda: b"[" * _SIZE,
}


def packed_body() -> bytes:
    """2 GB of spaces, as a compressed body of 2 MB."""
    return packed_repeats(b" ", 2_000_000_000)


def _reference(name: str) -> dict[str, str]:
    return {"projectId": "p", "datasetId": "d", "tableId": name}


def _table(**more: Any) -> bytes:
    fields = [{"name": "id", "type": "INT64"}]
    return json.dumps({"tableReference": _reference("bomb"), "schema": {"fields": fields}, **more}).encode()


def _deep(depth: int, width: int) -> Any:
    fields: Any = [{"name": "x", "type": "INT64"}]
    for _ in range(depth):
        fields = [{"name": f"r{n}", "type": "RECORD", "fields": fields} for n in range(width)]
    return fields


# Bodies of tables.insert.
TABLES: Final[dict[str, Any]] = {
    "a table of 100,000 columns": lambda: _table(
        schema={"fields": [{"name": f"c{n}", "type": "INT64"} for n in range(100_000)]}
    ),
    "a table of 400 records in each other": lambda: _table(schema={"fields": _deep(300, 1)}),
    "a table of 3^10 columns": lambda: _table(schema={"fields": _deep(10, 3)}),
    "a table of 200,000 labels": lambda: _table(labels={f"k{n}": "v" for n in range(200_000)}),
    "a table with a description of 9 MB": lambda: _table(description="x" * 9_000_000),
    "a table with 100,000 keys": lambda: _table(
        tableConstraints={"primaryKey": {"columns": [f"c{n}" for n in range(100_000)]}}
    ),
    "a table clustered by 100,000 columns": lambda: _table(
        clustering={"fields": [f"c{n}" for n in range(100_000)]}
    ),
    "a table of 10^18 partitions": lambda: _table(
        rangePartitioning={"field": "id", "range": {"start": "0", "end": str(10**18), "interval": "1"}}
    ),
    "a default of nested GREATEST": lambda: _table(
        schema={
            "fields": [
                {
                    "name": "id",
                    "type": "INT64",
                    "defaultValueExpression": "GREATEST(1," * 24 + "1" + ")" * 24,
                }
            ]
        }
    ),
    "a default of nested SAFE.ABS": lambda: _table(
        schema={
            "fields": [
                {"name": "id", "type": "INT64", "defaultValueExpression": "SAFE.ABS(" * 22 + "1" + ")" * 22}
            ]
        }
    ),
    "a default of 9 MB": lambda: _table(
        schema={"fields": [{"name": "id", "type": "INT64", "defaultValueExpression": "1+" * 4_500_000 + "1"}]}
    ),
}


def _rows(row: bytes, count: int, **more: Any) -> bytes:
    options = json.dumps(more).encode()[1:-1]
    return b"{" + (options + b"," if options else b"") + b'"rows":[' + b",".join([row] * count) + b"]}"


# Bodies of insertAll.
INSERTS: Final[dict[str, Any]] = {
    "a million rows without a value": lambda: _rows(b"{}", 1_000_000),
    "50,000 empty rows": lambda: _rows(b'{"json":{}}', 50_000),
    "50,000 bad rows": lambda: _rows(b'{"json":{"id":"x"}}', 50_000),
    "50,000 bad rows that are skipped": lambda: _rows(b'{"json":{"id":"x"}}', 50_000, skipInvalidRows=True),
    "rows of unknown columns": lambda: _rows(
        b'{"json":{' + b",".join(b'"u%d":1' % n for n in range(2_000)) + b"}}", 400, ignoreUnknownValues=True
    ),
    "one row of many unknown columns": lambda: _rows(
        b'{"json":{' + b",".join(b'"u%d":1' % n for n in range(700_000)) + b"}}", 1, ignoreUnknownValues=True
    ),
    "one row with a text of 9 MB": lambda: _rows(b'{"json":{"name":"' + b"x" * 9_000_000 + b'"}}', 1),
    "insert ids of 9 MB": lambda: _rows(b'{"insertId":"' + b"x" * 4_500_000 + b'","json":{"id":1}}', 2),
}


def _routine(body: str) -> bytes:
    reference = {"projectId": "p", "datasetId": "d", "routineId": "bomb"}
    return json.dumps(
        {
            "routineReference": reference,
            "routineType": "SCALAR_FUNCTION",
            "language": "SQL",
            "definitionBody": body,
            "arguments": [{"name": "x", "dataType": {"typeKind": "INT64"}}],
        }
    ).encode()


# Bodies of routines.insert.
ROUTINES: Final[dict[str, Any]] = {
    "a routine of nested GREATEST": lambda: _routine("GREATEST(1," * 24 + "x" + ")" * 24),
    "a routine of nested SAFE.ABS": lambda: _routine("SAFE.ABS(" * 22 + "x" + ")" * 22),
    "a routine of 60 kB": lambda: _routine("x+" * 30_000 + "x"),
    "a routine of 9 MB": lambda: _routine("x+" * 4_500_000 + "x"),
}

# Paths of GET requests.
PATHS: Final = {
    "fields of 8 kB": f"{_DATASET}/tables?fields=" + "a(" * 18 + "b" + ")" * 18 + ",c" * 3_900,
    "30 kB of parameters": f"{_DATASET}/tables?" + "a=1&" * 7_500,
    "a page of 10^18 rows": f"{_DATASET}/tables/t/data?maxResults=999999999999999999",
    "row 10^18": f"{_DATASET}/tables/t/data?startIndex=999999999999999999",
    "a page of 10^18 tables": f"{_DATASET}/tables?maxResults=999999999999999999",
    "a page of 10^18 jobs": f"{BASE}/jobs?maxResults=999999999999999999&projection=full",
    "a project of 30 kB": f"/bigquery/v2/projects/{'p' * 30_000}/datasets",
    "selected fields of 30 kB": f"{_DATASET}/tables/t/data?selectedFields=" + "a.b," * 7_000,
}
