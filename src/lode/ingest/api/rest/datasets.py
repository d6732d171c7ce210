"""REST v2: datasets insert, get, list, patch, update and delete, and the projects they are in."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from lode.format.ids import shortened
from lode.ingest.api.rest.call import Call, dataset_name, etag_of, page_token
from lode.ingest.api.rest.info import DATASET, info_of, merged_info
from lode.ingest.status import invalid

if TYPE_CHECKING:
    from lode.ingest.catalog.catalog import Catalog
    from lode.ingest.catalog.dataset import DatasetDefinition, DatasetName

_LOCATION: Final = re.compile(r"[A-Za-z0-9-]{1,64}")


class DatasetMethods:
    """The methods on datasets, each from a call to the JSON that answers it."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def insert(self, call: Call) -> dict[str, Any]:
        name = _referenced(call)
        info = info_of(call.body, DATASET, "dataset")
        created = self._catalog.create_dataset(name, location=_location(call.body), info=info)
        return _resource(created, call)

    def get(self, call: Call) -> dict[str, Any]:
        call.choice("datasetView", ("DATASET_VIEW_UNSPECIFIED", "METADATA", "ACL", "FULL"))
        return _resource(self._catalog.dataset(call.dataset, fresh=True), call)

    def list(self, call: Call) -> dict[str, Any]:
        after, limit = call.page()
        found = self._catalog.list_datasets(call.project, after=after, limit=limit)
        wanted = _filter(call.query.get("filter", ""))
        answer: dict[str, Any] = {
            "kind": "bigquery#datasetList",
            "etag": etag_of(found),
        }
        matching = [_item(dataset) for dataset in found if _matches(dataset, wanted)]
        if matching:
            answer["datasets"] = matching
        if len(found) == limit:
            answer["nextPageToken"] = page_token(found[-1].name.dataset)
        return answer

    def patch(self, call: Call) -> dict[str, Any]:
        return self._change(call, replace=False)

    def update(self, call: Call) -> dict[str, Any]:
        return self._change(call, replace=True)

    def delete(self, call: Call) -> None:
        self._catalog.delete_dataset(
            call.dataset, delete_contents=call.flag("deleteContents"), etag=call.etag
        )

    def projects(self, call: Call) -> dict[str, Any]:
        projects = self._catalog.list_projects()
        return {
            "kind": "bigquery#projectList",
            "projects": [
                {
                    "kind": "bigquery#project",
                    "id": project,
                    "numericId": "0",
                    "friendlyName": project,
                    "projectReference": {"projectId": project},
                }
                for project in projects
            ],
            "totalItems": len(projects),
        }

    def _change(self, call: Call, *, replace: bool) -> dict[str, Any]:
        if "datasetReference" in call.body and _referenced(call) != call.dataset:
            raise invalid("The datasetReference cannot change: create another dataset.")

        def change(current: DatasetDefinition) -> DatasetDefinition:
            base = {} if replace else current.info
            return msgspec.structs.replace(
                current,
                info=merged_info(base, call.body, DATASET, "dataset"),
                location=_location(call.body) or current.location,
            )

        return _resource(self._catalog.update_dataset(call.dataset, change, etag=call.etag), call)


def _referenced(call: Call) -> DatasetName:
    reference = call.body.get("datasetReference")
    if not isinstance(reference, dict) or not isinstance(reference.get("datasetId"), str):
        raise invalid("Required parameter is missing: datasetReference.datasetId.")
    if reference.get("projectId", call.project) != call.project:
        raise invalid(
            "The datasetReference names another project than the path: give "
            f"{shortened(call.project)} in both."
        )
    return dataset_name(call.project, reference["datasetId"])


def _location(body: dict[str, Any]) -> str:
    """The location that a resource names, empty if it names none."""
    location = body.get("location") or ""
    if not isinstance(location, str) or (location and not _LOCATION.fullmatch(location)):
        raise invalid("Invalid value for location: it must be like US or europe-west3.")
    return location


def _filter(text: str) -> list[tuple[str, str | None]]:
    """The labels a listing is filtered by: ``labels.key:value``, several of them separated by spaces."""
    wanted: list[tuple[str, str | None]] = []
    for term in text.split():
        if not term.startswith("labels."):
            raise invalid(
                f"Invalid value for filter: {shortened(term)} is not labels.<key> or labels.<key>:<value>."
            )
        key, colon, value = term.removeprefix("labels.").partition(":")
        wanted.append((key, value if colon else None))
    return wanted


def _matches(dataset: DatasetDefinition, wanted: list[tuple[str, str | None]]) -> bool:
    labels = dataset.info.get("labels", {})
    return all(key in labels and value in (None, labels[key]) for key, value in wanted)


def _item(dataset: DatasetDefinition) -> dict[str, Any]:
    project, name = dataset.name
    item = {
        "kind": "bigquery#dataset",
        "id": f"{project}:{name}",
        "datasetReference": {"projectId": project, "datasetId": name},
        "location": dataset.location,
        "type": "DEFAULT",
    }
    return item | {key: dataset.info[key] for key in ("friendlyName", "labels") if key in dataset.info}


def _resource(dataset: DatasetDefinition, call: Call) -> dict[str, Any]:
    return {
        **_item(dataset),
        "maxTimeTravelHours": "168",
        **dataset.info,
        "etag": dataset.etag,
        "selfLink": call.link(str(dataset.name)),
        "creationTime": str(dataset.created_ms),
        "lastModifiedTime": str(dataset.modified_ms),
    }
