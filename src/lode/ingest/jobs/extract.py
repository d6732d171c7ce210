"""Extract jobs: the rows of a table as files in the directory that ``--extract-to`` names."""

from __future__ import annotations

import re
import uuid
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, Final

from lode.format.ids import shortened
from lode.ingest.jobs.formats.write import COMPRESSIONS, open_writer
from lode.ingest.jobs.origin import Origin
from lode.ingest.jobs.tables import parse_reference
from lode.ingest.status import Code, Refused, invalid

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa

    from lode.ingest.core.engine import Engine
    from lode.ingest.jobs.job import Job

_URI: Final = re.compile(r"gs://([a-z0-9][a-z0-9._-]{1,220})/(.+)", re.DOTALL)
_NOT_IN_PATHS: Final = re.compile(r"[\x00-\x1f\x7f\\]")
_MAX_PART_BYTES: Final = 200
# Rows of one file, if the address has a wildcard; the service has the same limit.
MAX_FILE_BYTES: Final = 1 << 30


class ExtractJobs:
    """Runs extract jobs.

    Args:
        engine: The tables.
        root: Where files are written: ``gs://bucket/file`` as ``bucket/file``. None refuses all jobs.
    """

    durable = True

    def __init__(self, engine: Engine, root: Path | None) -> None:
        self._engine = engine
        self._root = root

    def check(self, job: Job) -> None:
        settings = job.settings
        if settings.get("sourceModel"):
            raise Refused(Code.UNIMPLEMENTED, "Models are not supported: extract a table.")
        parse_reference(settings.get("sourceTable"), job.project, "extract.sourceTable")
        uris = _uris(settings)
        if len(uris) == 1:
            settings.setdefault("destinationUri", uris[0])
        _format(settings)

    def run(self, job: Job) -> None:
        settings = job.settings
        if self._root is None:
            raise Refused(
                Code.UNIMPLEMENTED,
                "Extract jobs need a directory to write to: start the server with --extract-to DIR.",
            )
        uris = _uris(settings)
        if len(uris) > 1:
            raise Refused(
                Code.UNIMPLEMENTED,
                "An extract job writes to one address: give one, with * for several files.",
            )
        ref = parse_reference(settings.get("sourceTable"), job.project, "extract.sourceTable")
        origin = Origin(self._engine, ref)
        files = _Files(self._root, uris[0])
        files.write(job, origin, settings)
        job.statistics = {
            "extract": {"destinationUriFileCounts": [str(files.count)], "inputBytes": str(origin.size)}
        }


class _Files:
    """The files of one job. They get their names when all of them are written."""

    def __init__(self, root: Path, uri: str) -> None:
        self._path, self._is_pattern = _path(root, uri), "*" in uri
        self._root = root
        self.count = 0

    def write(self, job: Job, origin: Origin, settings: dict[str, Any]) -> None:
        done: list[tuple[Path, Path]] = []
        with ExitStack() as undo:
            batches = origin.rows()
            batch = next(batches, None)
            while True:
                target = self._target()
                new = target.with_name(f".{uuid.uuid4().hex}.part")
                undo.callback(_remove, new)
                batch = self._one(new, job, origin, settings, batch, batches)
                done.append((new, target))
                if batch is None:
                    break
            for new, target in done:
                new.replace(target)

    def _one(
        self,
        path: Path,
        job: Job,
        origin: Origin,
        settings: dict[str, Any],
        batch: pa.RecordBatch | None,
        batches: Iterator[pa.RecordBatch],
    ) -> pa.RecordBatch | None:
        """Write one file; returns the first batch of the next."""
        kind, compression = _format(settings)
        size = 0
        with open_writer(path, kind, compression, origin.definition.schema, settings) as write:
            while batch is not None:
                job.check_cancelled()
                write(batch)
                size += batch.nbytes
                batch = next(batches, None)
                if batch is not None and size >= MAX_FILE_BYTES:
                    if self._is_pattern:
                        return batch
                    raise invalid(
                        f"The table has more than {MAX_FILE_BYTES:,} bytes of rows, too many for one file: "
                        "extract it to several with * in the address."
                    )
        return None

    def _target(self) -> Path:
        name = self._path.name.replace("*", f"{self.count:012d}")
        self.count += 1
        target = self._path.with_name(name)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise invalid(f"The folder of {shortened(name)} cannot be created: {error.strerror}.") from None
        # A link below the directory may lead out of it.
        if not target.parent.resolve().is_relative_to(self._root.resolve()) or target.is_symlink():
            raise invalid(f"The address of {shortened(name)} leads out of the directory of --extract-to.")
        if target.is_dir():
            raise invalid(f"The address of {shortened(name)} is a folder: choose another.")
        return target


def _path(root: Path, uri: str) -> Path:
    match = _URI.fullmatch(uri)
    parts = match[2].split("/") if match else []
    if (
        match is None
        or _NOT_IN_PATHS.search(uri)
        or ".." in match[1]
        or any(
            part in ("", ".", "..") or len(part.encode(errors="replace")) > _MAX_PART_BYTES for part in parts
        )
        or "*" in "".join(parts[:-1])
        or parts[-1].count("*") > 1
    ):
        raise invalid(
            f"Invalid extract destination URI {shortened(uri)}: write gs://bucket/folder/file-*.csv, with at "
            "most one *, in the name of the file."
        )
    return root.joinpath(match[1], *parts)


def _uris(settings: dict[str, Any]) -> list[str]:
    found = settings.get("destinationUris") or [settings.get("destinationUri")]
    if not isinstance(found, list) or not all(isinstance(uri, str) and uri for uri in found):
        raise invalid("Required parameter is missing: extract.destinationUris.")
    for uri in found:
        if not uri.startswith("gs://"):
            raise invalid(f"Invalid extract destination URI {shortened(uri)}: it must begin with gs://.")
    return found


def _format(settings: dict[str, Any]) -> tuple[str, str]:
    kind = settings.get("destinationFormat") or "CSV"
    if kind not in COMPRESSIONS:
        raise invalid(
            f"Invalid value for destinationFormat: {shortened(str(kind))} is not one of "
            f"{', '.join(COMPRESSIONS)}."
        )
    compression = settings.get("compression") or "NONE"
    if compression not in COMPRESSIONS[kind]:
        raise invalid(
            f"Invalid value for compression: {shortened(str(compression))} of {kind} is not one of "
            f"{', '.join(COMPRESSIONS[kind])}."
        )
    return kind, compression


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink(missing_ok=True)
