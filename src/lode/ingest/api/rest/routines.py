"""REST v2: routines insert, get, list, update and delete. A routine is an SQL function or a procedure."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from lode.format.ids import shortened
from lode.ingest.api.errors import not_implemented
from lode.ingest.api.rest.call import RestCall, page_token
from lode.ingest.jobs.query import as_refusal
from lode.ingest.jobs.sql import routines
from lode.ingest.jobs.sql.names import is_procedure
from lode.ingest.status import Code, Refused, invalid
from lode.sql.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lode.ingest.catalog.catalog import Catalog
    from lode.ingest.catalog.dataset import DatasetDefinition
    from lode.ingest.jobs.sql.apart import Signature
    from lode.ingest.types.columns import Column

    Signatures = Callable[[list[str], str], Sequence[Signature]]

_FUNCTION, _PROCEDURE = "SCALAR_FUNCTION", "PROCEDURE"
_ID: Final = re.compile(r"\w{1,256}", re.ASCII)
_NAME: Final = re.compile(r"[A-Za-z_]\w{0,299}", re.ASCII)
_SCALARS: Final = frozenset(
    (
        *("INT64", "FLOAT64", "NUMERIC", "BIGNUMERIC", "BOOL", "STRING", "BYTES", "DATE", "TIME"),
        *("DATETIME", "TIMESTAMP", "INTERVAL", "GEOGRAPHY", "JSON"),
    )
)
_MAX_DEPTH: Final = 15
_SIGNATURE: Final = ("routineType", "language", "arguments", "returnType", "definitionBody")
# Stored as the client gave them.
_KEPT: Final = ("description", "determinismLevel", "strictMode", "dataGovernanceType")
_SHOWN: Final = ("creationTime", "lastModifiedTime", "definitionBody", *_KEPT)


class RoutineMethods:
    """The methods on routines. Each returns the JSON of the answer."""

    def __init__(self, catalog: Catalog, signatures: Signatures) -> None:
        self._catalog = catalog
        self._signatures = signatures

    def insert(self, call: RestCall) -> dict[str, Any]:
        reference = call.body.get("routineReference")
        given = reference.get("routineId") if isinstance(reference, dict) else None
        return self._store(call, given, replaces=False)

    def update(self, call: RestCall) -> dict[str, Any]:
        current = self._catalog.dataset(call.dataset, fresh=True)
        # Clients may send only what changes. Without them, the routine would be another one.
        kept = self._answers(call, current, [self._key(call, current)])[0]
        body = {key: kept[key] for key in _SIGNATURE if key in kept} | call.body
        return self._store(replace(call, body=body), call.params["routine"], replaces=True)

    def get(self, call: RestCall) -> dict[str, Any]:
        dataset = self._catalog.dataset(call.dataset, fresh=True)
        return self._answers(call, dataset, [self._key(call, dataset)])[0]

    def list(self, call: RestCall) -> dict[str, Any]:
        after, limit = call.page()
        dataset = self._catalog.dataset(call.dataset, fresh=True)
        wanted = re.fullmatch(r"\s*routineType\s*:\s*(\w+)\s*", call.query.get("filter", ""))
        names = [
            key
            for key in sorted(dataset.routines)
            if key > after and (wanted is None or _kind(dataset.routines[key]) == wanted[1])
        ]
        shown = ("etag", "routineReference", "routineType", "creationTime", "lastModifiedTime", "language")
        found = self._answers(call, dataset, names[:limit])
        answer: dict[str, Any] = {
            "routines": [{name: each[name] for name in shown if name in each} for each in found]
        }
        if len(names) > limit:
            answer["nextPageToken"] = page_token(names[limit - 1])
        return answer

    def delete(self, call: RestCall) -> None:
        try:
            routines.remove(self._catalog, call.dataset, call.params["routine"])
        except QueryError as error:
            raise as_refusal(error) from None

    def _store(self, call: RestCall, name: Any, *, replaces: bool) -> dict[str, Any]:
        if not isinstance(name, str) or not _ID.fullmatch(name):
            raise invalid(
                f"Invalid routine ID {shortened(str(name))}: it must be at most 256 letters, digits and "
                "underscores."
            )
        try:
            text = _statement(call, name)
            self._signatures([text], call.client)
            info = {key: call.body[key] for key in _KEPT if call.body.get(key)}
            info["definitionBody"] = call.body["definitionBody"]
            routines.store(
                self._catalog, call.dataset, name, text, replace=replaces, info=info, etag=call.etag
            )
        except QueryError as error:
            raise as_refusal(error) from None
        return self._answers(call, self._catalog.dataset(call.dataset, fresh=True), [name.lower()])[0]

    def _answers(
        self, call: RestCall, dataset: DatasetDefinition, keys: Sequence[str]
    ) -> Sequence[dict[str, Any]]:
        try:
            found = self._signatures([dataset.routines[key] for key in keys], call.client) if keys else []
        except QueryError as error:
            raise as_refusal(error) from None
        return [_answer(dataset, key, made) for key, made in zip(keys, found, strict=True)]

    def _key(self, call: RestCall, dataset: DatasetDefinition) -> str:
        key = call.params["routine"].lower()
        if key not in dataset.routines:
            name = f"{call.project}:{call.dataset.dataset}.{call.params['routine']}"
            raise Refused(Code.NOT_FOUND, f"Not found: Routine {name[:300]}")
        return key


def _statement(call: RestCall, name: str) -> str:
    """The statement that creates the routine of a request."""
    body = call.body
    kind = body.get("routineType", _FUNCTION)
    if kind not in (_FUNCTION, _PROCEDURE):
        raise not_implemented(f"Routines of the type {shortened(str(kind))} are not supported.")
    if body.get("language", "SQL") not in ("SQL", "LANGUAGE_UNSPECIFIED"):
        raise not_implemented(f"Routines in {shortened(str(body['language']))} are not supported: write SQL.")
    for key in ("importedLibraries", "remoteFunctionOptions", "sparkOptions", "externalRuntimeOptions"):
        if body.get(key):
            raise not_implemented(f"A routine with {key} is not supported.")
    source = body.get("definitionBody")
    if not isinstance(source, str) or not source.strip():
        raise invalid("Required parameter is missing: definitionBody.")
    given = body.get("arguments") or []
    if not isinstance(given, list):
        raise invalid("Invalid value for arguments: it must be a list.")
    arguments = ", ".join(_argument(each, kind) for each in given)
    noun = "FUNCTION" if kind == _FUNCTION else "PROCEDURE"
    head = f"CREATE {noun} `{call.dataset.dataset}`.`{name}`({arguments})"
    if kind == _PROCEDURE:
        is_block = source.lstrip()[:5].upper() == "BEGIN"
        return f"{head}\n{source}" if is_block else f"{head}\nBEGIN\n{source}\nEND"
    returns = f" RETURNS {_type(body['returnType'])}" if body.get("returnType") else ""
    return f"{head}{returns} AS (\n{source}\n)"


def _argument(given: Any, kind: str) -> str:
    name = given.get("name") if isinstance(given, dict) else None
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise invalid(f"Invalid name of an argument: {shortened(str(name))}.")
    mode = given.get("mode", "IN")
    if mode not in (*routines.MODES, "MODE_UNSPECIFIED"):
        raise invalid(f"Invalid mode {shortened(str(mode))} of argument {name}: use IN, OUT or INOUT.")
    any_type = given.get("argumentKind") == "ANY_TYPE"
    shown = "ANY TYPE" if any_type else _type(given.get("dataType"))
    mode = f"{mode if mode in routines.MODES else 'IN'} " if kind == _PROCEDURE else ""
    return f"{mode}`{name}` {shown}"


def _type(given: Any, depth: int = 0) -> str:
    """The SQL of a type."""
    kind = given.get("typeKind") if isinstance(given, dict) else None
    if depth > _MAX_DEPTH:
        raise invalid(f"A type has more than {_MAX_DEPTH} levels.")
    if kind == "ARRAY":
        return f"ARRAY<{_type(given.get('arrayElementType'), depth + 1)}>"
    if kind == "STRUCT":
        inside = given.get("structType")
        fields = inside.get("fields") if isinstance(inside, dict) else None
        if not isinstance(fields, list) or not fields:
            raise invalid("Invalid value for structType: it needs fields.")
        return f"STRUCT<{', '.join(_field(each, depth) for each in fields)}>"
    if not isinstance(kind, str) or kind not in _SCALARS:
        raise invalid(f"Invalid value for typeKind: {shortened(str(kind))} is no type of SQL.")
    return str(kind)


def _field(given: Any, depth: int) -> str:
    name = given.get("name") if isinstance(given, dict) else None
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise invalid(f"Invalid name of a field: {shortened(str(name))}.")
    return f"`{name}` {_type(given.get('type'), depth + 1)}"


# -- answers ------------------------------------------------------------------------------------------------


def _kind(text: str) -> str:
    return _PROCEDURE if is_procedure(text) else _FUNCTION


def _answer(dataset: DatasetDefinition, key: str, made: Signature) -> dict[str, Any]:
    text = dataset.routines[key]
    info = dataset.routine_info.get(key, {})
    name = info.get("id", key)
    project, own = dataset.name
    answer: dict[str, Any] = {
        "etag": routines.etag_of(text, info),
        "routineReference": {"projectId": project, "datasetId": own, "routineId": name},
        "routineType": _kind(text),
        "creationTime": str(dataset.created_ms),
        "lastModifiedTime": str(dataset.modified_ms),
        "language": "SQL",
        "definitionBody": made.body,
    }
    if made.arguments:
        answer["arguments"] = [_shown_argument(each, _kind(text)) for each in made.arguments]
    if made.returns is not None:
        answer["returnType"] = _shown_type(made.returns)
    return answer | {key: info[key] for key in _SHOWN if key in info}


def _shown_argument(argument: tuple[str, str, Column | None], kind: str) -> dict[str, Any]:
    name, mode, column = argument
    shown: dict[str, Any] = {"name": name}
    if kind == _PROCEDURE:
        shown["mode"] = mode
    if column is None:
        return shown | {"argumentKind": "ANY_TYPE"}
    return shown | {"dataType": _shown_type(column)}


def _shown_type(column: Column, *, element: bool = False) -> dict[str, Any]:
    if column.mode == "REPEATED" and not element:
        return {"typeKind": "ARRAY", "arrayElementType": _shown_type(column, element=True)}
    if column.type != "STRUCT":
        return {"typeKind": column.type}
    fields = [{"name": each.name, "type": _shown_type(each)} for each in column.fields]
    return {"typeKind": "STRUCT", "structType": {"fields": fields}}
