"""The properties of a REST resource: which are kept, which are the server's own, which are refused.

A property that Lode would have to act on, and does not, is refused rather than kept: a table that says it
expires, and never does, misleads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from lode.format.ids import shortened
from lode.ingest.api.errors import not_implemented
from lode.ingest.api.rest.call import plain
from lode.ingest.status import invalid

if TYPE_CHECKING:
    from collections.abc import Mapping


class Properties(NamedTuple):
    """What may be said about one kind of resource."""

    kept: dict[str, type]
    # Handled by name, or the server's own: what a client sends back of them is passed over.
    known: frozenset[str]
    refused: dict[str, str]


_EXPIRES: Final = "nothing is deleted by itself in Lode"
_KEYS: Final = "files are encrypted as the store is set up"

DATASET: Final = Properties(
    kept={
        "friendlyName": str,
        "description": str,
        "labels": dict,
        "resourceTags": dict,
        "maxTimeTravelHours": str,
        "storageBillingModel": str,
    },
    known=frozenset(
        {
            "kind",
            "etag",
            "id",
            "selfLink",
            "datasetReference",
            "location",
            "creationTime",
            "lastModifiedTime",
            "type",
            "satisfiesPzi",
            "satisfiesPzs",
        }
    ),
    refused={
        "access": "Lode has no access lists: who has the server's token may do everything",
        "defaultTableExpirationMs": _EXPIRES,
        "defaultPartitionExpirationMs": _EXPIRES,
        "defaultEncryptionConfiguration": _KEYS,
        "isCaseInsensitive": "the names of tables are case-sensitive",
        "defaultCollation": "text is compared by its bytes",
        "defaultRoundingMode": "numbers with too many digits are refused, not rounded by a mode",
        "externalDatasetReference": "datasets elsewhere cannot be linked",
        "linkedDatasetSource": "datasets cannot be linked",
        "externalCatalogDatasetOptions": "there are no external catalogs",
        "tags": "there are no tags: use labels",
    },
)
TABLE: Final = Properties(
    kept={
        "friendlyName": str,
        "description": str,
        "labels": dict,
        "resourceTags": dict,
        "clustering": dict,
        "requirePartitionFilter": bool,
    },
    known=frozenset(
        {
            "kind",
            "etag",
            "id",
            "selfLink",
            "tableReference",
            "schema",
            "timePartitioning",
            "rangePartitioning",
            "type",
            "location",
            "creationTime",
            "lastModifiedTime",
            "numBytes",
            "numPhysicalBytes",
            "numLongTermBytes",
            "numRows",
            "numPartitions",
            "numTimeTravelPhysicalBytes",
            "numTotalLogicalBytes",
            "numActiveLogicalBytes",
            "numLongTermLogicalBytes",
            "numCurrentPhysicalBytes",
            "numTotalPhysicalBytes",
            "numActivePhysicalBytes",
            "numLongTermPhysicalBytes",
            "numFailSafePhysicalBytes",
            "streamingBuffer",
        }
    ),
    refused={
        "view": "there are no views, since Lode runs no SQL",
        "materializedView": "there are no views, since Lode runs no SQL",
        "externalDataConfiguration": "there are no external tables: append the rows instead",
        "model": "there are no models",
        "tableConstraints": "there are no keys, and so no upserts or change data capture",
        "expirationTime": _EXPIRES,
        "encryptionConfiguration": _KEYS,
        "cloneDefinition": "tables cannot be cloned: read snapshots with the library instead",
        "snapshotDefinition": "every commit is a snapshot: read them with the library instead",
        "snapshotTableInfo": "every commit is a snapshot: read them with the library instead",
        "biglakeConfiguration": "there are no external tables: append the rows instead",
        "tableReplicationInfo": "tables are not replicated by the server: the store does that",
        "replicas": "tables are not replicated by the server: the store does that",
        "defaultCollation": "text is compared by its bytes",
        "defaultRoundingMode": "numbers with too many digits are refused, not rounded by a mode",
        "maxStaleness": "tables are never stale",
        "externalCatalogTableOptions": "there are no external catalogs",
        "partitionDefinition": "use timePartitioning or rangePartitioning",
    },
)


def info_of(body: Mapping[str, Any], properties: Properties, kind: str) -> dict[str, Any]:
    """What a new resource says about itself and the server keeps."""
    return merged_info({}, body, properties, kind)


def merged_info(
    current: Mapping[str, Any], patch: Mapping[str, Any], properties: Properties, kind: str
) -> dict[str, Any]:
    """The kept properties after a patch: null removes one, objects are merged key by key."""
    merged = dict(current)
    for key, value in patch.items():
        if key in properties.known:
            continue
        if key in properties.refused:
            if _says_something(value):
                raise not_implemented(f"A {kind} with {key} is not supported: {properties.refused[key]}.")
            continue
        if key not in properties.kept:
            raise invalid(
                f"Invalid JSON payload received. Unknown name {shortened(key)} of a {kind}: leave it out."
            )
        kept = _merged(current.get(key), _checked(key, value, properties.kept[key]))
        if kept is None or kept == {}:
            merged.pop(key, None)
        else:
            merged[key] = kept
    return merged


def _says_something(value: Any) -> bool:
    """Whether a property is more than the empty shell that clients send along."""
    return bool(value) and value not in ("ROUNDING_MODE_UNSPECIFIED", "0")


def _checked(key: str, value: Any, kind: type) -> Any:
    if value is None:
        return None
    if kind is str and isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, kind):
        raise invalid(f"Invalid value for {key}: it must be {_WORDS[kind]}.")
    if key in ("labels", "resourceTags") and not all(
        item is None or isinstance(item, str) for item in cast("dict[str, Any]", value).values()
    ):
        raise invalid(f"Invalid value for {key}: its values must be text.")
    return plain(value, key)


_WORDS: Final = {str: "text", dict: "an object", bool: "true or false"}


def _merged(current: Any, value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    both = {**(current if isinstance(current, dict) else {}), **value}
    return {key: item for key, item in both.items() if item is not None}
