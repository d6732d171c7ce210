"""Extract jobs: the rows of a table as files of a bucket."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lode.format.ids import shortened
from lode.ingest.jobs.buckets import file_format
from lode.ingest.jobs.origin import Origin
from lode.ingest.jobs.tables import parse_reference
from lode.ingest.status import Code, Refused, invalid

if TYPE_CHECKING:
    from lode.ingest.core.engine import Engine
    from lode.ingest.jobs.buckets import Buckets
    from lode.ingest.jobs.job import Job


class ExtractJobs:
    """Runs extract jobs.

    Args:
        engine: The tables.
        buckets: Where files are written.
    """

    durable = True
    workers = 4

    def __init__(self, engine: Engine, buckets: Buckets) -> None:
        self._engine = engine
        self._buckets = buckets

    def check(self, job: Job) -> None:
        settings = job.settings
        if settings.get("sourceModel"):
            raise Refused(Code.UNIMPLEMENTED, "Models are not supported: extract a table.")
        parse_reference(settings.get("sourceTable"), job.project, "extract.sourceTable")
        uris = _uris(settings)
        if len(uris) == 1:
            settings.setdefault("destinationUri", uris[0])
        file_format(settings)

    def run(self, job: Job) -> None:
        settings = job.settings
        uris = _uris(settings)
        if len(uris) > 1:
            raise Refused(
                Code.UNIMPLEMENTED,
                "An extract job writes to one address: give one, with * for several files.",
            )
        ref = parse_reference(settings.get("sourceTable"), job.project, "extract.sourceTable")
        origin = Origin(self._engine, ref)
        files, _ = self._buckets.write(
            uris[0], origin.definition.schema, origin.rows(), settings, job.check_cancelled
        )
        job.statistics = {
            "extract": {"destinationUriFileCounts": [str(files)], "inputBytes": str(origin.size)}
        }


def _uris(settings: dict[str, Any]) -> list[str]:
    found = settings.get("destinationUris") or [settings.get("destinationUri")]
    if not isinstance(found, list) or not all(isinstance(uri, str) and uri for uri in found):
        raise invalid("Required parameter is missing: extract.destinationUris.")
    for uri in found:
        if not uri.startswith("gs://"):
            raise invalid(f"Invalid extract destination URI {shortened(uri)}: it must begin with gs://.")
    return found
