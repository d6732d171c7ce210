"""REST v2: datasets insert, get, list, patch, update and delete, and the list of projects."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import UNSET

from lode.format.ids import shortened
from lode.ingest.api.rest.call import RestCall, dataset_name, etag_of, page_token
from lode.ingest.api.rest.resources import DatasetReference, DatasetResource, parse_resource
from lode.ingest.catalog.expiry import MIN_TABLE_EXPIRATION_MS, milliseconds
from lode.ingest.status import invalid

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lode.ingest.catalog.catalog import Catalog
    from lode.ingest.catalog.dataset import DatasetDefinition, DatasetName

# The list of a dataset that was created without one, as in the service.
_DEFAULT_ACCESS: Final = tuple(
    {"role": role, "specialGroup": group}
    for role, group in (
        ("WRITER", "projectWriters"),
        ("OWNER", "projectOwners"),
        ("READER", "projectReaders"),
    )
)
_LOCATION: Final = re.compile(r"[A-Za-z0-9-]{1,64}")


class DatasetMethods:
    """The methods on datasets. Each returns the JSON of the answer."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def insert(self, call: RestCall) -> dict[str, Any]:
        resource = parse_resource(call.body, DatasetResource)
        created = self._catalog.create_dataset(
            _referenced(resource, call), location=_location(resource), info=_checked_info(resource, {})
        )
        return _answer(created, call)

    def get(self, call: RestCall) -> dict[str, Any]:
        call.choice("datasetView", ("DATASET_VIEW_UNSPECIFIED", "METADATA", "ACL", "FULL"))
        return _answer(self._catalog.dataset(call.dataset, fresh=True), call)

    def list(self, call: RestCall) -> dict[str, Any]:
        after, limit = call.page()
        found = self._catalog.list_datasets(call.project, after=after, limit=limit, hidden=call.flag("all"))
        labels = _label_filter(call.query.get("filter", ""))
        answer: dict[str, Any] = {"kind": "bigquery#datasetList", "etag": etag_of(found)}
        matching = [_item(dataset) for dataset in found if _matches(dataset, labels)]
        if matching:
            answer["datasets"] = matching
        if len(found) == limit:
            answer["nextPageToken"] = page_token(found[-1].name.dataset)
        return answer

    def delete(self, call: RestCall) -> None:
        self._catalog.delete_dataset(
            call.dataset, delete_contents=call.flag("deleteContents"), etag=call.etag
        )

    def projects(self, call: RestCall) -> dict[str, Any]:
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

    def change(self, call: RestCall, *, replace: bool) -> dict[str, Any]:
        """Merge the body into the resource, as PATCH does; or replace it, as PUT does."""
        resource = parse_resource(call.body, DatasetResource)
        if resource.dataset_reference and _referenced(resource, call) != call.dataset:
            raise invalid("The datasetReference cannot change: create another dataset.")
        location = _location(resource)

        def change(current: DatasetDefinition) -> DatasetDefinition:
            return msgspec.structs.replace(
                current,
                info=_checked_info(resource, {} if replace else current.info),
                location=location or current.location,
            )

        return _answer(self._catalog.update_dataset(call.dataset, change, etag=call.etag), call)


def _referenced(resource: DatasetResource, call: RestCall) -> DatasetName:
    reference = resource.dataset_reference
    if not reference:
        raise invalid("Required parameter is missing: datasetReference.datasetId.")
    if reference.project_id not in (UNSET, call.project):
        raise invalid(
            "The datasetReference names another project than the path: give "
            f"{shortened(call.project)} in both."
        )
    return dataset_name(call.project, reference.dataset_id)


def _checked_info(resource: DatasetResource, current: Mapping[str, Any]) -> dict[str, Any]:
    """Return the stored properties."""
    info = resource.merged_info(current)
    for name, least in (
        ("defaultTableExpirationMs", MIN_TABLE_EXPIRATION_MS),
        ("defaultPartitionExpirationMs", 1),
    ):
        if name in info:
            milliseconds(info[name], name, least=least)
    for number, entry in enumerate(info.get("access", ())):
        given = entry.keys() - {"role", "condition"}
        if len(given) != 1:
            raise invalid(
                f"Invalid value for access[{number}]: it must name exactly one of a user, group, domain, "
                "special group, member, view, routine or dataset."
            )
    return info


def _location(resource: DatasetResource) -> str:
    """Return the location of a resource, empty if it has none."""
    location = resource.location or ""
    if location and not _LOCATION.fullmatch(location):
        raise invalid("Invalid value for location: it must be like US or europe-west3.")
    return location


def _label_filter(text: str) -> list[tuple[str, str | None]]:
    """Parse the filter of a list: ``labels.key:value``, separated by spaces."""
    labels: list[tuple[str, str | None]] = []
    for term in text.split():
        if not term.startswith("labels."):
            raise invalid(
                f"Invalid value for filter: {shortened(term)} is not labels.<key> or labels.<key>:<value>."
            )
        key, colon, value = term.removeprefix("labels.").partition(":")
        labels.append((key, value if colon else None))
    return labels


def _matches(dataset: DatasetDefinition, wanted: list[tuple[str, str | None]]) -> bool:
    labels = dataset.info.get("labels", {})
    return all(key in labels and value in (None, labels[key]) for key, value in wanted)


def _item(dataset: DatasetDefinition, **more: Any) -> dict[str, Any]:
    """Return a dataset as lists have it."""
    project, name = dataset.name
    item = DatasetResource(
        kind="bigquery#dataset",
        id=f"{project}:{name}",
        dataset_reference=DatasetReference(project_id=project, dataset_id=name),
        location=dataset.location,
        type="DEFAULT",
        **more,
    )
    info = {key: dataset.info[key] for key in ("friendlyName", "labels") if key in dataset.info}
    answer: dict[str, Any] = msgspec.to_builtins(item)
    return answer | info


def _answer(dataset: DatasetDefinition, call: RestCall) -> dict[str, Any]:
    return (
        _item(
            dataset,
            max_time_travel_hours="168",
            etag=dataset.etag,
            self_link=call.link(str(dataset.name)),
            creation_time=str(dataset.created_ms),
            last_modified_time=str(dataset.modified_ms),
        )
        | {"access": _DEFAULT_ACCESS}
        | dataset.info
    )
