"""A body for every route that takes one, with every property that the server reads."""

from __future__ import annotations

from typing import Any

ROOT = "/bigquery/v2/projects/p"
DATASET = f"{ROOT}/datasets/d"
TABLE = f"{DATASET}/tables/t"
TARGET = {"projectId": "p", "datasetId": "d", "tableId": "made"}
SOURCE = {"projectId": "p", "datasetId": "d", "tableId": "t"}
FIELD = {
    "name": "a",
    "type": "STRING",
    "mode": "NULLABLE",
    "description": "d",
    "defaultValueExpression": "'x'",
    "maxLength": "10",
    "precision": "1",
    "scale": "0",
    "rangeElementType": {"type": "DATE"},
    "policyTags": {"names": []},
    "fields": [{"name": "b", "type": "INT64"}],
    "timestampPrecision": "6",
    "roundingMode": "ROUND_HALF_EVEN",
}
PLAIN_FIELD = {"name": "a", "type": "INT64", "mode": "NULLABLE"}
NEW_TABLE = {
    "tableReference": TARGET,
    "schema": {"fields": [FIELD]},
    "timePartitioning": {"type": "DAY", "field": "a", "expirationMs": "0", "requirePartitionFilter": True},
    "rangePartitioning": {"field": "a", "range": {"start": "0", "end": "10", "interval": "1"}},
    "clustering": {"fields": ["a"]},
    "tableConstraints": {
        "primaryKey": {"columns": ["a"]},
        "foreignKeys": [
            {
                "name": "k",
                "referencedTable": SOURCE,
                "columnReferences": [{"referencingColumn": "a", "referencedColumn": "id"}],
            }
        ],
    },
    "labels": {"a": "b"},
    "resourceTags": {"a": "b"},
    "description": "d",
    "friendlyName": "f",
    "requirePartitionFilter": True,
    "type": "TABLE",
    "expirationTime": "1",
    "maxStaleness": "0-0 0 0:0:0",
    "materializedView": {},
    "numRows": "1",
}
VIEW = {"tableReference": TARGET, "view": {"query": "SELECT 1 AS a", "useLegacySql": False}}
NEW_DATASET = {
    "datasetReference": {"projectId": "p", "datasetId": "new"},
    "location": "US",
    "labels": {"a": "b"},
    "description": "d",
    "friendlyName": "f",
    "maxTimeTravelHours": "168",
    "storageBillingModel": "LOGICAL",
    "access": [{"role": "READER", "userByEmail": "a@b"}, {"view": SOURCE}],
    "defaultTableExpirationMs": "3600000",
    "defaultPartitionExpirationMs": "1",
}
ROWS = {
    "kind": "x",
    "skipInvalidRows": True,
    "ignoreUnknownValues": True,
    "templateSuffix": "x",
    "rows": [{"insertId": "a", "json": {"id": 1, "s": "x", "r": {"n": "1"}, "j": {"a": [1]}, "l": [1]}}],
}
ROUTINE = {
    "routineReference": {"projectId": "p", "datasetId": "d", "routineId": "f"},
    "routineType": "SCALAR_FUNCTION",
    "language": "SQL",
    "definitionBody": "x * 2",
    "arguments": [
        {"name": "x", "mode": "IN", "argumentKind": "FIXED_TYPE", "dataType": {"typeKind": "INT64"}},
        {
            "name": "y",
            "dataType": {"typeKind": "ARRAY", "arrayElementType": {"typeKind": "STRING"}},
        },
        {
            "name": "z",
            "dataType": {
                "typeKind": "STRUCT",
                "structType": {"fields": [{"name": "q", "type": {"typeKind": "DATE"}}]},
            },
        },
    ],
    "returnType": {"typeKind": "INT64"},
    "description": "d",
    "determinismLevel": "DETERMINISTIC",
    "strictMode": True,
}
PARAMETERS = [
    {
        "name": "i",
        "parameterType": {"type": "INT64"},
        "parameterValue": {"value": "1"},
    },
    {
        "name": "l",
        "parameterType": {"type": "ARRAY", "arrayType": {"type": "STRING"}},
        "parameterValue": {"arrayValues": [{"value": "a"}]},
    },
    {
        "name": "s",
        "parameterType": {"type": "STRUCT", "structTypes": [{"name": "x", "type": {"type": "DATE"}}]},
        "parameterValue": {"structValues": {"x": {"value": "2024-01-01"}}},
    },
]
QUERY = {
    "query": "SELECT @i AS a",
    "useLegacySql": False,
    "useQueryCache": True,
    "defaultDataset": {"projectId": "p", "datasetId": "d"},
    "queryParameters": PARAMETERS,
    "parameterMode": "NAMED",
    "maximumBytesBilled": "1000000",
    "connectionProperties": [{"key": "time_zone", "value": "UTC"}],
    "priority": "INTERACTIVE",
}
INTO_TABLE = {
    "query": "SELECT 1 AS a",
    "destinationTable": TARGET,
    "writeDisposition": "WRITE_TRUNCATE",
    "createDisposition": "CREATE_IF_NEEDED",
    "schemaUpdateOptions": [],
    "timePartitioning": {"type": "DAY"},
    "clustering": {"fields": ["a"]},
    "tableDefinitions": {},
    "userDefinedFunctionResources": [],
}
LOAD = {
    "destinationTable": TARGET,
    "sourceUris": ["gs://bucket/a.csv"],
    "schema": {"fields": [PLAIN_FIELD]},
    "sourceFormat": "CSV",
    "autodetect": False,
    "skipLeadingRows": 0,
    "fieldDelimiter": ",",
    "quote": '"',
    "allowQuotedNewlines": True,
    "allowJaggedRows": True,
    "nullMarker": "NULL",
    "nullMarkers": [],
    "encoding": "UTF-8",
    "maxBadRecords": 1,
    "ignoreUnknownValues": True,
    "useAvroLogicalTypes": True,
    "createDisposition": "CREATE_IF_NEEDED",
    "writeDisposition": "WRITE_TRUNCATE",
    "schemaUpdateOptions": ["ALLOW_FIELD_ADDITION"],
    "timePartitioning": {"type": "DAY"},
    "rangePartitioning": {"field": "a", "range": {"start": "0", "end": "10", "interval": "1"}},
    "clustering": {"fields": ["a"]},
    "destinationTableProperties": {"description": "d", "friendlyName": "f", "labels": {"a": "b"}},
    "parquetOptions": {"enableListInference": True},
    "decimalTargetTypes": ["NUMERIC"],
    "preserveAsciiControlCharacters": True,
    "timeZone": "UTC",
    "jsonExtension": "",
    "hivePartitioningOptions": {},
}
COPY = {
    "sourceTables": [SOURCE],
    "sourceTable": SOURCE,
    "destinationTable": TARGET,
    "createDisposition": "CREATE_IF_NEEDED",
    "writeDisposition": "WRITE_TRUNCATE",
    "operationType": "COPY",
    "destinationExpirationTime": "2030-01-01T00:00:00Z",
}
EXTRACT = {
    "sourceTable": SOURCE,
    "destinationUris": ["gs://bucket/out-*.csv"],
    "destinationUri": "gs://bucket/out.csv",
    "destinationFormat": "CSV",
    "compression": "NONE",
    "fieldDelimiter": ",",
    "printHeader": True,
    "useAvroLogicalTypes": True,
}
REFERENCE = {"projectId": "p", "location": "US"}


def job(kind: str, settings: dict[str, Any], **more: Any) -> dict[str, Any]:
    configuration = {kind: settings, "labels": {"a": "b"}, "jobTimeoutMs": "60000", **more}
    return {"jobReference": REFERENCE, "configuration": configuration}


BODIES: list[tuple[str, str, dict[str, Any]]] = [
    ("POST", f"{ROOT}/datasets", NEW_DATASET),
    ("PATCH", DATASET, NEW_DATASET),
    ("PUT", DATASET, NEW_DATASET),
    ("POST", f"{DATASET}/tables", NEW_TABLE),
    ("POST", f"{DATASET}/tables", VIEW),
    ("PATCH", TABLE, NEW_TABLE),
    ("PUT", TABLE, NEW_TABLE),
    ("POST", f"{TABLE}/insertAll", ROWS),
    ("POST", f"{TABLE}:testIamPermissions", {"permissions": ["bigquery.tables.get"]}),
    ("POST", f"{DATASET}/routines", ROUTINE),
    ("PUT", f"{DATASET}/routines/g", ROUTINE),
    ("POST", f"{ROOT}/jobs", job("query", QUERY)),
    ("POST", f"{ROOT}/jobs", job("query", QUERY, dryRun=True)),
    ("POST", f"{ROOT}/jobs", job("query", INTO_TABLE)),
    ("POST", f"{ROOT}/jobs", job("load", LOAD)),
    ("POST", f"{ROOT}/jobs", job("copy", COPY)),
    ("POST", f"{ROOT}/jobs", job("extract", EXTRACT)),
    (
        "POST",
        f"{ROOT}/queries",
        {
            **QUERY,
            "maxResults": 1,
            "timeoutMs": 1000,
            "dryRun": False,
            "labels": {"a": "b"},
            "location": "US",
            "requestId": "r",
            "formatOptions": {"useInt64Timestamp": True, "timestampOutputFormat": "INT64"},
            "jobTimeoutMs": "60000",
            "jobCreationMode": "JOB_CREATION_REQUIRED",
        },
    ),
]
# The configuration of an upload, whose file follows.
UPLOAD = job("load", {key: value for key, value in LOAD.items() if key != "sourceUris"})
