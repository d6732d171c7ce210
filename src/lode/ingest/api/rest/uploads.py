"""REST v2: uploads of files for load jobs, in one request or in several that can be resumed."""

from __future__ import annotations

import re
from email.message import Message
from typing import TYPE_CHECKING, Any, Final

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from lode.format.ids import shortened
from lode.ingest.api.client import client_of_scope
from lode.ingest.api.errors import TooLarge, code_of, error_response
from lode.ingest.api.rest.body import parse_body
from lode.ingest.api.rest.call import RestCall, read_body, read_call
from lode.ingest.api.rest.jobs import QUICK_SECONDS
from lode.ingest.status import Code, Refused, invalid

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request

    from lode.ingest.api.audit import Audit
    from lode.ingest.api.rest.body import Bodies
    from lode.ingest.api.rest.jobs import JobMethods
    from lode.ingest.jobs.uploads import Session, Upload, Uploads

# The first part of an upload, with the configuration of the job.
MAX_CONFIGURATION_BYTES: Final = 1 << 20
# Bytes are written to the disk in pieces of this size.
_PIECE_BYTES: Final = 1 << 20
_MAX_HEADER_BYTES: Final = 16 << 10
_BOUNDARY: Final = re.compile(r"[ -~]{1,70}")
_RANGE: Final = re.compile(r"bytes (?:([0-9]{1,18})-([0-9]{1,18})|\*)/([0-9]{1,18}|\*)")


class UploadMethods:
    """The methods of the path ``/upload``.

    Args:
        uploads: The files.
        jobs: Starts the jobs.
        bodies: Counts the bytes of requests in memory.
        audit: Records the requests.
    """

    def __init__(self, uploads: Uploads, jobs: JobMethods, bodies: Bodies, audit: Audit) -> None:
        self._uploads = uploads
        self._jobs = jobs
        self._bodies = bodies
        self._audit = audit

    async def answer(self, request: Request) -> Response:
        """Answer a request."""
        result = "OK"
        try:
            return await self._answer(request)
        except ClientDisconnect:
            result = Code.CANCELLED.name
            return Response(status_code=499)  # the client is gone
        except Exception as error:
            result = code_of(error).name
            return error_response(error)
        finally:
            client = client_of_scope(request.scope)
            self._audit.change(client, f"{request.method} upload", request.url.path, result)

    async def _answer(self, request: Request) -> Response:
        kind = request.query_params.get("uploadType", "")
        if request.method == "POST" and kind == "multipart":
            return await self._multipart(request)
        id = request.query_params.get("upload_id")
        if kind != "resumable" and (kind or id is None):
            raise invalid(f"Invalid value for uploadType: {shortened(kind)} is not multipart or resumable.")
        if request.method not in ("DELETE", "PUT", "POST") or (id is None and request.method != "POST"):
            raise invalid("An upload is begun with POST, sent with PUT, and cancelled with DELETE.")
        if id is None:
            return await self._begin(request)
        session = self._uploads.find(request.path_params["project"], id)
        if request.method == "DELETE":
            await run_in_threadpool(self._uploads.cancel, session)
            return Response(status_code=499)
        return await self._put(request, session)

    # -- one request ---------------------------------------------------------------------------

    async def _multipart(self, request: Request) -> Response:
        boundary = _boundary(request.headers.get("content-type", ""))
        _check_encoding(request)
        parts = _Parts(request.stream(), boundary)
        _, configuration = await parts.small()
        with self._uploads.receiving(client_of_scope(request.scope)) as upload:
            try:
                await parts.large(upload)
                call = await _call(request, configuration)
                job = await run_in_threadpool(self._jobs.start, call, upload)
            except BaseException:
                await run_in_threadpool(upload.close)
                raise
        await job.finished(QUICK_SECONDS)
        return _json(job.resource(call.root))

    # -- several requests ----------------------------------------------------------------------

    async def _begin(self, request: Request) -> Response:
        with self._bodies.of(client_of_scope(request.scope)) as held:
            body = await read_body(request, limit=MAX_CONFIGURATION_BYTES, held=held)
            call = await read_call(request, body)
        declared = request.headers.get("x-upload-content-length")
        if declared is not None and not re.fullmatch(r"[0-9]{1,18}", declared):
            raise invalid(f"Invalid X-Upload-Content-Length {shortened(declared)}: it must be a number.")
        total = None if declared is None else int(declared)
        session = await run_in_threadpool(self._uploads.begin, call.project, body, total, call.client)
        query = f"uploadType=resumable&upload_id={session.id}"
        path = request.url.path.lstrip("/")
        return Response(
            headers={"Location": f"{request.base_url}{path}?{query}", "X-GUploader-UploadID": session.id}
        )

    async def _put(self, request: Request, session: Session) -> Response:
        if session.busy:
            raise Refused(
                Code.UNAVAILABLE, "Another request of this upload is still being received: try again."
            )
        session.busy = True
        try:
            return await self._receive(request, session)
        except Refused as refused:
            if refused.code is Code.RESOURCE_EXHAUSTED:
                # Its bytes would keep the space that it has not found.
                await run_in_threadpool(self._uploads.cancel, session)
            raise
        finally:
            session.busy = False

    async def _receive(self, request: Request, session: Session) -> Response:
        _check_encoding(request)
        start, end, total = _content_range(request.headers.get("content-range"))
        if session.job_id is not None:
            return _json(self._jobs.find(session.project, session.job_id, request.base_url))
        upload = session.upload
        if total is not None and session.total is not None and total != session.total:
            raise invalid(f"The upload has {session.total} bytes in all, not {total}: begin another.")
        total = session.total if total is None else total
        if start is not None:
            await _append(request, session, start, end, total)
            if end is None and total is None:
                total = upload.size
        if total is not None and upload.size > total:
            raise invalid(f"The upload has {upload.size} bytes already, more than {total}: begin another.")
        session.total = total  # not of a request that is refused
        if total is None or upload.size < total:
            return _incomplete(upload.size)
        try:
            body = await run_in_threadpool(session.body.path.read_bytes)
            job = await run_in_threadpool(self._jobs.start, await _call(request, body), upload)
        except BaseException:
            await run_in_threadpool(self._uploads.cancel, session)
            raise
        session.job_id = job.id
        await job.finished(QUICK_SECONDS)
        return _json(job.resource(str(request.base_url)))


def _check_encoding(request: Request) -> None:
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", ""):
        raise invalid(
            f"Content-Encoding {shortened(encoding)} of an upload is not supported: send the file as it is."
        )


async def _call(request: Request, body: bytes) -> RestCall:
    return RestCall(
        params=request.path_params,
        query=request.query_params,
        body=await run_in_threadpool(parse_body, body),
        etag=None,
        root=str(request.base_url),
        fields={},
        client=client_of_scope(request.scope),
        size=len(body),
    )


def _json(answer: dict[str, Any]) -> Response:
    return Response(msgspec.json.encode(answer), media_type="application/json")


def _incomplete(size: int) -> Response:
    """The answer with the number of bytes that have arrived."""
    return Response(status_code=308, headers={"Range": f"bytes=0-{size - 1}"} if size else {})


def _content_range(header: str | None) -> tuple[int | None, int | None, int | None]:
    """The first byte, the last byte and the size of the file; without a header, all from byte 0 on."""
    if header is None:
        return 0, None, None
    match = _RANGE.fullmatch(header.strip())
    if match is None:
        raise invalid(
            f"Failed to parse Content-Range header {shortened(header)}: write 'bytes 0-99/100', 'bytes "
            "0-99/*' or 'bytes */100'."
        )
    first, last, total = match.groups()
    size = None if total == "*" else int(total)
    if first is None:
        return None, None, size
    if int(last) < int(first) or (size is not None and int(last) >= size):
        raise invalid(
            f"Invalid Content-Range {shortened(header)}: its last byte is before its first, or too large."
        )
    return int(first), int(last), size


async def _append(request: Request, session: Session, start: int, end: int | None, total: int | None) -> None:
    """Store the bytes of a request that have not arrived before."""
    upload = session.upload
    if start > upload.size:
        raise invalid(
            f"Invalid request. According to the Content-Range header, the upload offset is {start} byte(s), "
            f"which exceeds already uploaded size of {upload.size} byte(s)."
        )
    before = upload.size
    limit = None if end is None else end + 1
    length = request.headers.get("content-length")
    if limit is not None and length is not None and length != str(limit - start):
        raise invalid(
            f"The Content-Range has {limit - start} bytes and the Content-Length is {shortened(length)}: "
            "they must agree."
        )
    position = start
    waiting = bytearray()
    async for chunk in request.stream():
        position += len(chunk)
        session.touch()
        if (limit is not None and position > limit) or (total is not None and position > total):
            await run_in_threadpool(upload.truncate, before)
            raise invalid(f"The request has more bytes than its Content-Range: {position - start} or more.")
        known = max(0, upload.size + len(waiting) - (position - len(chunk)))
        waiting += chunk[known:]
        if len(waiting) >= _PIECE_BYTES:
            await run_in_threadpool(upload.write, bytes(waiting))
            waiting.clear()
    if waiting:
        await run_in_threadpool(upload.write, bytes(waiting))


# -- multipart/related -----------------------------------------------------------------------------------


def _boundary(kind: str) -> bytes:
    message = Message()
    message["content-type"] = kind
    boundary = message.get_param("boundary")
    if message.get_content_type() != "multipart/related" or not isinstance(boundary, str):
        raise invalid(
            f"The Content-Type of a multipart upload is {shortened(kind)}: send multipart/related with a "
            "boundary."
        )
    if _BOUNDARY.fullmatch(boundary) is None:
        raise invalid(f"Invalid boundary {shortened(boundary)}: it has 1 to 70 characters of ASCII.")
    return boundary.encode()


class _Parts:
    """Reads the two parts of a body as they arrive: a small one, then a large one."""

    def __init__(self, stream: AsyncIterator[bytes], boundary: bytes) -> None:
        self._stream = stream
        # The first boundary may be at the very beginning.
        self._buffer = bytearray(b"\r\n")
        self._mark = b"\r\n--" + boundary

    async def small(self) -> tuple[bytes, bytes]:
        """The headers and the content of the first part."""
        await self._until(self._mark, _MAX_HEADER_BYTES)
        headers = await self._headers()
        return headers, await self._until(self._mark, MAX_CONFIGURATION_BYTES)

    async def large(self, upload: Upload) -> None:
        """Store the content of the second part."""
        await self._headers()
        keep = len(self._mark) - 1
        while True:
            # What follows the headers directly may be the end of an empty file.
            at = self._buffer.find(self._mark)
            size = len(self._buffer) - keep if at < 0 else at
            if at >= 0 or size >= _PIECE_BYTES:
                data = bytes(self._buffer[:size])
                del self._buffer[:size]
                if data:
                    await run_in_threadpool(upload.write, data)
            if at >= 0:
                break
            await self._more()
        del self._buffer[: len(self._mark)]
        while len(self._buffer) < 2:
            await self._more()
        if not self._buffer.startswith(b"--"):
            raise invalid("The upload has more than two parts: send the configuration, then one file.")
        async for _ in self._stream:
            pass

    async def _headers(self) -> bytes:
        while len(self._buffer) < 2:
            await self._more()
        if self._buffer.startswith(b"--"):
            raise invalid("The upload ends before its file: send two parts, the configuration and the file.")
        # A part without headers begins with an empty line.
        return await self._until(b"\r\n\r\n", _MAX_HEADER_BYTES)

    async def _until(self, mark: bytes, limit: int) -> bytes:
        """The bytes before a mark, which is removed."""
        while (at := self._buffer.find(mark)) < 0:
            if len(self._buffer) > limit + len(mark):
                raise TooLarge(
                    Code.INVALID_ARGUMENT,
                    f"The headers or the configuration of the upload have more than {limit:,} bytes.",
                )
            await self._more()
        found = bytes(self._buffer[:at])
        del self._buffer[: at + len(mark)]
        return found

    async def _more(self) -> None:
        async for chunk in self._stream:
            if chunk:
                self._buffer += chunk
                return
        raise invalid("The upload ends too early: its last boundary is missing.")
