"""Uploads over raw HTTP: resumed, repeated, cut off, wrong and hostile; and what stays of them."""

from __future__ import annotations

import gzip
import http.client
import io
import json
import re
import socket
import zlib
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import fastavro
import pyarrow as pa
import pyarrow.orc as orc
import pytest

from lode.ingest.core.limits import StagedBytes
from lode.ingest.jobs import uploads
from lode.ingest.jobs.uploads import Uploads
from lode.ingest.status import Refused
from lode.testing.plugin import LodeServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Rows = Callable[[str], list[dict[str, Any]]]

PATH = "/upload/bigquery/v2/projects/p/jobs"
JSON = "NEWLINE_DELIMITED_JSON"
SCHEMA = {"fields": [{"name": "id", "type": "INTEGER"}]}


class Http:
    """Sends raw requests."""

    def __init__(self, server: LodeServer) -> None:
        self.server = server
        self.address = urlsplit(server.http_url)

    def send(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, str], Any]:
        """Send a request; returns the status, the headers and the JSON of the answer."""
        connection = http.client.HTTPConnection(self.address.hostname or "", self.address.port, timeout=60)
        try:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            text = response.read()
            found = {name.lower(): value for name, value in response.getheaders()}
            return response.status, found, json.loads(text) if text else None
        finally:
            connection.close()

    def begin(
        self, table: str, kind: str = JSON, *, headers: dict[str, str] | None = None, **job: Any
    ) -> str:
        """Begin a resumable upload; returns the path of its session."""
        body = json.dumps({"configuration": {"load": configuration(table, kind)}, **job}).encode()
        given = {"Content-Type": "application/json", **(headers or {})}
        status, found, answer = self.send("POST", f"{PATH}?uploadType=resumable", body, given)
        assert status == 200, answer
        location = urlsplit(found["location"])
        return f"{location.path}?{location.query}"

    def put(self, session: str, data: bytes, content_range: str | None) -> tuple[int, dict[str, str], Any]:
        headers = {} if content_range is None else {"Content-Range": content_range}
        return self.send("PUT", session, data, headers)

    def wait(self, job: dict[str, Any]) -> dict[str, Any]:
        """Wait for a job of an answer; returns its status."""
        reference = job["jobReference"]
        self.server._running._server.jobs.get("p", reference["jobId"]).wait(60)
        _, _, found = self.send("GET", f"/bigquery/v2/projects/p/jobs/{reference['jobId']}?location=US")
        status: dict[str, Any] = found["status"]
        return status

    @property
    def staged_bytes(self) -> int:
        return self.server._running.engine.staged.bytes

    @property
    def files(self) -> list[Path]:
        return list((self.server._running.engine.store.root / "ingest-state" / "uploads").iterdir())  # type: ignore[attr-defined]


def configuration(table: str, kind: str = JSON) -> dict[str, Any]:
    project, dataset, name = table.split(".")
    reference = {"projectId": project, "datasetId": dataset, "tableId": name}
    return {"destinationTable": reference, "sourceFormat": kind, "schema": SCHEMA}


@pytest.fixture(scope="module", autouse=True)
def dataset(server: LodeServer) -> None:
    server.create_table("p.d.first", SCHEMA["fields"])


@pytest.fixture
def web(server: LodeServer) -> Iterator[Http]:
    made = Http(server)
    yield made
    for session in list(server._running._server.uploads._sessions.values()):
        server._running._server.uploads.cancel(session)
    assert made.files == []
    assert made.staged_bytes == 0


def refused(answer: tuple[int, dict[str, str], Any], status: int, reason: str = "invalid") -> str:
    assert (answer[0], answer[2]["error"]["errors"][0]["reason"]) == (status, reason), answer
    message: str = answer[2]["error"]["message"]
    return message


# -- resumable uploads ---------------------------------------------------------------------------------

DATA = b'{"id": 1}\n{"id": 2}\n'


def test_a_session_is_found_by_its_id_alone(web: Http, table: str, rows: Rows) -> None:
    session = web.begin(table).replace("uploadType=resumable&", "")
    status, found, _ = web.put(session, b'{"id": ', "bytes 0-6/10")
    assert (status, found["range"]) == (308, "bytes=0-6")
    status, _, answer = web.put(session, b"1}\n", "bytes 7-9/10")
    assert status == 200
    assert web.wait(answer) == {"state": "DONE"}
    assert rows(table) == [{"id": 1}]
    assert web.put(f"{PATH}?upload_id={'a' * 32}", b"x", "bytes 0-0/1")[0] == 404


def test_an_upload_goes_on_where_it_was_interrupted(web: Http, table: str, rows: Rows) -> None:
    session = web.begin(table)
    assert web.put(session, b"", "bytes */*")[:2][0] == 308
    status, headers, _ = web.put(session, DATA[:5], "bytes 0-4/*")
    assert (status, headers["range"]) == (308, "bytes=0-4")
    # The answer was lost, and the client asks; then it sends some bytes again.
    status, headers, _ = web.put(session, b"", f"bytes */{len(DATA)}")
    assert (status, headers["range"]) == (308, "bytes=0-4")
    status, _, job = web.put(session, DATA[3:], f"bytes 3-{len(DATA) - 1}/{len(DATA)}")
    assert status == 200
    assert web.wait(job) == {"state": "DONE"}
    assert [row["id"] for row in rows(table)] == [1, 2]


def test_the_answer_of_a_finished_upload_can_be_asked_for_again(web: Http, table: str, rows: Rows) -> None:
    session = web.begin(table)
    whole = f"bytes 0-{len(DATA) - 1}/{len(DATA)}"
    _, _, job = web.put(session, DATA, whole)
    web.wait(job)
    for data, content_range in ((DATA, whole), (b"", f"bytes */{len(DATA)}")):
        status, _, again = web.put(session, data, content_range)
        assert (status, again["jobReference"]) == (200, job["jobReference"])
    assert len(rows(table)) == 2


def test_a_file_is_sent_without_a_range_or_without_bytes(web: Http, table: str, rows: Rows) -> None:
    _, _, job = web.put(web.begin(table), DATA, None)
    assert web.wait(job) == {"state": "DONE"}
    _, _, job = web.put(web.begin(table), b"", "bytes */0")
    assert web.wait(job) == {"state": "DONE"}
    assert len(rows(table)) == 2


def test_bytes_of_a_broken_connection_are_kept(web: Http, table: str) -> None:
    session = web.begin(table)
    with socket.create_connection((web.address.hostname, web.address.port)) as raw:
        head = f"PUT {session} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n"
        raw.sendall(f"{head}Content-Range: bytes 0-99/100\r\n\r\n".encode() + DATA)
        raw.shutdown(socket.SHUT_WR)
        assert raw.recv(1000) is not None
    # What arrived before the end may or may not be stored; the client asks and sends the rest.
    status, headers, _ = web.put(session, b"", "bytes */100")
    assert status == 308
    kept = int(headers["range"].rpartition("-")[2]) + 1 if "range" in headers else 0
    assert kept <= len(DATA)
    rest = (DATA + b" " * (100 - len(DATA)))[kept:]
    _, _, job = web.put(session, rest, f"bytes {kept}-99/100")
    assert web.wait(job) == {"state": "DONE"}


@pytest.mark.parametrize(
    "content_range",
    [
        "bytes",
        "bytes 0-4",
        "bytes 4-0/10",
        "bytes 0-9/5",
        "bytes 5-9/20",
        "bytes 0-8/20",
        "bytes -1-4/5",
        "items 0-4/5",
        "bytes 0-99999999999999999999/*",
        "bytes 0-4/5, bytes 5-9/10",
    ],
)
def test_a_wrong_range_changes_nothing(web: Http, table: str, content_range: str) -> None:
    session = web.begin(table)
    refused(web.put(session, b"12345", content_range), 400)
    status, headers, _ = web.put(session, b"", "bytes */*")
    assert (status, headers.get("range")) == (308, None)


def test_the_size_of_a_file_cannot_change(web: Http, table: str) -> None:
    session = web.begin(table, headers={"X-Upload-Content-Length": "100"})
    assert "100 bytes in all" in refused(web.put(session, DATA, f"bytes 0-{len(DATA) - 1}/{len(DATA)}"), 400)


def test_a_size_that_is_refused_is_forgotten(web: Http, table: str, rows: Rows) -> None:
    session = web.begin(table)
    web.put(session, DATA[:8], "bytes 0-7/*")
    assert "more than 5" in refused(web.put(session, b"", "bytes */5"), 400)
    refused(web.put(session, DATA[8:], f"bytes 9-{len(DATA)}/{len(DATA) + 1}"), 400)
    _, _, job = web.put(session, DATA[8:], f"bytes 8-{len(DATA) - 1}/{len(DATA)}")
    assert web.wait(job) == {"state": "DONE"}
    assert len(rows(table)) == 2


def test_more_bytes_than_declared_are_refused(web: Http, table: str) -> None:
    session = web.begin(table)
    chunks = iter([b"12345", b"67890"])
    refused(web.send("PUT", session, chunks, {"Content-Range": "bytes 0-4/5"}), 400)
    assert web.put(session, b"", "bytes */*")[1].get("range") is None


def test_a_huge_declared_size_is_refused_at_once(web: Http, table: str) -> None:
    body = json.dumps({"configuration": {"load": configuration(table)}}).encode()
    for size in ("1" + "0" * 17, "x", "-1", "9" * 30):
        headers = {"Content-Type": "application/json", "X-Upload-Content-Length": size}
        refused(web.send("POST", f"{PATH}?uploadType=resumable", body, headers), 400)


def test_a_session_ends_when_it_is_cancelled_or_expires(
    web: Http, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = web.begin(table)
    assert web.put(session, b"123", "bytes 0-2/9")[0] == 308
    assert web.send("DELETE", session)[0] == 499
    refused(web.put(session, b"", "bytes */*"), 404, "notFound")
    old, empty = web.begin(table), web.begin(table)
    assert web.put(old, b"123", "bytes 0-2/9")[0] == 308
    monkeypatch.setattr(uploads, "EMPTY_SESSION_SECONDS", -1)
    web.begin(table)
    refused(web.put(empty, b"", "bytes */*"), 404, "notFound")
    assert web.put(old, b"", "bytes */*")[0] == 308
    monkeypatch.setattr(uploads, "SESSION_SECONDS", -1)
    web.begin(table)
    refused(web.put(old, b"", "bytes */*"), 404, "notFound")


def test_a_session_belongs_to_its_project(web: Http, table: str) -> None:
    session = web.begin(table).replace("/projects/p/", "/projects/other/")
    refused(web.put(session, DATA, None), 404, "notFound")


@pytest.mark.parametrize("limits", [{"uploads": 3}, {"client_uploads": 3}])
def test_the_number_of_open_uploads_is_limited(tmp_path: Path, limits: dict[str, int]) -> None:
    limited = LodeServer(tmp_path / "lake", **limits)
    try:
        limited.create_table("p.d.t", SCHEMA["fields"])
        web = Http(limited)
        sessions = [web.begin("p.d.t") for _ in range(3)]
        job = {"configuration": {"load": configuration("p.d.t")}}
        headers = {"Content-Type": "application/json"}
        answer = web.send("POST", f"{PATH}?uploadType=resumable", json.dumps(job).encode(), headers)
        assert re.match(r"3 uploads( of this client)? are open", refused(answer, 429, "rateLimitExceeded"))
        refused(send_multipart(web, multipart(job, DATA)), 429, "rateLimitExceeded")
        # One that is finished makes room.
        web.wait(web.put(sessions[0], DATA, None)[2])
        web.begin("p.d.t")
    finally:
        limited.stop()


def test_a_session_without_a_byte_ends_after_minutes_and_one_with_bytes_after_a_day(tmp_path: Path) -> None:
    now = [0.0]
    files = Uploads(tmp_path / "uploads", StagedBytes(1000), clock=lambda: now[0])
    empty, begun = (files.begin("p", b"{}", None, "a") for _ in range(2))
    begun.upload.write(b"123")
    now[0] = 601.0
    assert files.expire() == 1
    assert files.find("p", begun.id) is begun
    with pytest.raises(Refused, match="expired"):
        files.find("p", empty.id)
    now[0] += 24 * 3600 + 1
    assert files.expire() == 1


def test_a_request_that_still_sends_keeps_its_session(tmp_path: Path) -> None:
    now = [0.0]
    files = Uploads(tmp_path / "uploads", StagedBytes(1000), clock=lambda: now[0])
    session = files.begin("p", b"{}", None, "a")
    now[0] = 500.0
    session.touch()
    now[0] = 1000.0
    assert files.expire() == 0


def test_an_upload_is_not_begun_by_a_page_that_only_reads(web: Http) -> None:
    for method in ("GET", "PATCH"):
        refused(web.send(method, f"{PATH}?uploadType=resumable"), 400)


def test_a_refused_job_ends_its_upload(web: Http, table: str) -> None:
    session = web.begin(table, jobReference={"projectId": "p", "jobId": "a b"})
    refused(web.put(session, DATA, None), 400)
    refused(web.put(session, DATA, None), 404, "notFound")


def test_the_disk_space_of_uploads_is_limited(tmp_path: Path) -> None:
    with_limit = LodeServer(tmp_path / "lake", staged_bytes=2000)
    try:
        with_limit.create_table("p.d.t", SCHEMA["fields"])
        web = Http(with_limit)
        session = web.begin("p.d.t")
        assert web.put(session, b"x" * 1000, "bytes 0-999/5000")[0] == 308
        answer = web.put(session, b"x" * 4000, "bytes 1000-4999/5000")
        assert "the limit is 2,000" in refused(answer, 429, "rateLimitExceeded")
        assert (web.files, web.staged_bytes) == ([], 0)  # at once
        body = multipart({"configuration": {"load": configuration("p.d.t")}}, b"x" * 5000)
        refused(send_multipart(web, body), 429, "rateLimitExceeded")
        web.send("DELETE", session)
        assert (web.files, web.staged_bytes) == ([], 0)
    finally:
        with_limit.stop()


# -- multipart -----------------------------------------------------------------------------------------


def multipart(job: Any, data: bytes, boundary: str = "=-b_0", end: str = "--") -> bytes:
    text = job if isinstance(job, bytes) else json.dumps(job).encode()
    mark = f"--{boundary}".encode()
    head = b"\r\ncontent-type: application/json; charset=UTF-8\r\n\r\n"
    return b"".join(
        (mark, head, text, b"\r\n", mark, b"\r\nContent-Type: */*\r\n\r\n", data, b"\r\n", mark, end.encode())
    )


def send_multipart(
    web: Http, body: Any, kind: str = 'multipart/related; boundary="=-b_0"'
) -> tuple[int, dict[str, str], Any]:
    return web.send("POST", f"{PATH}?uploadType=multipart", body, {"Content-Type": kind})


def test_a_body_in_small_chunks_is_loaded(web: Http, table: str, rows: Rows) -> None:
    # The data has what looks like a boundary, and the real one is cut by chunks.
    data = DATA.replace(b"}\n", b', "x": "--=-b"}\r\n', 1)
    job = {"configuration": {"load": configuration(table) | {"ignoreUnknownValues": True}}}
    body = b"a preamble\r\n" + multipart(job, data) + b"\r\nan epilogue"
    status, _, found = send_multipart(web, (body[at : at + 7] for at in range(0, len(body), 7)))
    assert status == 200
    assert web.wait(found) == {"state": "DONE"}
    assert [row["id"] for row in rows(table)] == [1, 2]


def test_an_empty_file_has_no_rows(web: Http, table: str, rows: Rows) -> None:
    _, _, job = send_multipart(web, multipart({"configuration": {"load": configuration(table)}}, b""))
    assert web.wait(job) == {"state": "DONE"}
    assert rows(table) == []


GOOD = {"configuration": {"load": configuration("p.d.first")}}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"--=-b_0",
        b"--=-b_0--",
        multipart(GOOD, DATA)[:40],
        multipart(GOOD, DATA)[:-2],
        multipart(GOOD, DATA)[:-12],
        multipart(GOOD, DATA, end="\r\n\r\nthird\r\n--=-b_0--"),
        multipart(GOOD, DATA, boundary="other"),
        multipart(b"no json", DATA),
        multipart(b"[]", DATA),
        multipart(b"{}", DATA),
        multipart({"configuration": {"query": {}, "load": {}}}, DATA),
        b'--=-b_0\r\n\r\n{"configuration": 1}\r\n--=-b_0--',
    ],
)
def test_a_malformed_body_is_refused(web: Http, body: bytes) -> None:
    refused(send_multipart(web, body), 400)


def test_large_headers_and_configurations_are_refused(web: Http) -> None:
    refused(send_multipart(web, b"--=-b_0\r\nx: " + b"y" * 100_000), 413, "requestTooLarge")
    refused(send_multipart(web, multipart(b" " * (2 << 20), DATA)), 413, "requestTooLarge")


@pytest.mark.parametrize(
    "kind",
    [
        "",
        "application/json",
        "multipart/form-data; boundary=x",
        "multipart/related",
        "multipart/related; boundary=ä",
    ],
)
def test_another_content_type_is_refused(web: Http, kind: str) -> None:
    refused(send_multipart(web, multipart(GOOD, DATA), kind.encode().decode("latin-1")), 400)


@pytest.mark.parametrize("kind", ["", "media", "Multipart"])
def test_another_kind_of_upload_is_refused(web: Http, kind: str) -> None:
    assert "uploadType" in refused(web.send("POST", f"{PATH}?uploadType={kind}", b"{}"), 400)


# -- files that grow -----------------------------------------------------------------------------------


def outcome(web: Http, table: str, data: bytes, kind: str = JSON) -> str:
    _, _, job = web.put(web.begin(table, kind), data, None)
    status = web.wait(job)
    assert status["errorResult"]["reason"] == "invalid"
    message: str = status["errorResult"]["message"]
    return message


def test_damaged_gzip_is_refused(web: Http, table: str) -> None:
    packed = gzip.compress(DATA)
    for data in (packed[:-9], packed[:12] + b"\xff" * 9, b"\x1f\x8b"):
        assert "cannot be read as gzip" in outcome(web, table, data)


def test_a_block_of_avro_that_claims_many_rows_is_refused(web: Http, table: str) -> None:
    schema = {"type": "record", "name": "row", "fields": [{"name": "id", "type": "null"}]}
    sink = io.BytesIO()
    fastavro.writer(sink, schema, [{"id": None}] * 10)
    assert "claims 10 rows" in outcome(web, table, sink.getvalue(), "AVRO")


def test_a_file_that_crashes_its_reader_fails_only_its_job(web: Http, table: str) -> None:
    sink = io.BytesIO()
    orc.write_table(pa.table({"l": [[i, i + 1] for i in range(20)]}), sink)
    data = bytearray(sink.getvalue())
    data[51] = 1  # Arrow's reader ends with a segmentation fault
    lists = {"fields": [{"name": "l", "type": "INTEGER", "mode": "REPEATED"}]}
    sent = {"configuration": {"load": configuration(table, "ORC") | {"schema": lists}}}
    _, _, job = send_multipart(web, multipart(sent, bytes(data)))
    assert "cannot be read as ORC" in web.wait(job)["errorResult"]["message"]
    assert web.send("GET", "/bigquery/v2/projects/p/jobs")[0] == 200


def test_a_file_for_another_type_of_job_is_dropped(web: Http) -> None:
    body = multipart({"configuration": {"copy": {"sourceTable": {}}}}, zlib.compress(DATA))
    refused(send_multipart(web, body), 400)
