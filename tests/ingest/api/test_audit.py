"""The audit log has a line for each change and each refused token, and no client can forge one."""

from __future__ import annotations

import json
import logging
import stat
from typing import TYPE_CHECKING, Any

import pytest

from ingest.api.test_security import NAME, Client
from lode.errors import InvalidOptionError
from lode.ingest.api.audit import MAX_REFUSALS_PER_SECOND, Audit
from lode.ingest.api.client import client_name
from lode.testing.plugin import LodeServer

if TYPE_CHECKING:
    from pathlib import Path

HOSTILE = 'x"\n{"action": "forged"}\r\x1b[31m\u2028\ud800\x00'


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text("ascii").splitlines()]


def test_every_change_has_a_line_with_its_client(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    server = LodeServer(tmp_path / "lake", tokens=frozenset({"one"}), audit_log=file)
    client = Client(server, authorization="Bearer one")
    client.create_table()
    stream = client.create_stream().name
    client.append([1, 2])
    assert client.http("/bigquery/v2/projects/p/datasets/d/tables/t")[0] == 200  # no change: no line
    query = {"configuration": {"query": {"query": "SELECT 1"}}, "jobReference": {"jobId": "j"}}
    client.http("/bigquery/v2/projects/p/jobs", query)
    server._running._server.jobs.get("p", "j").wait(60)
    client.http("/bigquery/v2/projects/p/datasets/nothing/tables", {"tableReference": {"tableId": "t"}})
    client.close()
    server.stop()
    found = lines(file)
    assert {line["client"] for line in found} == {client_name(token=b"one")}
    seen = [(line["action"], line["target"], line["result"]) for line in found]
    root = "/bigquery/v2/projects/p"
    for expected in [
        ("POST", f"{root}/datasets", "OK"),
        ("POST", f"{root}/datasets/d/tables", "OK"),
        ("CreateWriteStream", NAME, "OK"),
        ("AppendRows", f"{NAME}/_default", "OK"),
        ("jobs.query", "p:US.j", "OK"),
        ("POST", f"{root}/jobs", "OK"),
        ("POST", f"{root}/datasets/nothing/tables", "NOT_FOUND"),
    ]:
        assert expected in seen
    assert stream.startswith(NAME)
    assert sum(line.get("rows", 0) for line in found if not line.get("begins")) == 2
    assert len([each for each in seen if each[0] not in ("AppendRows",)]) == 6


def test_a_refused_token_has_a_line_on_both_ports_without_the_token(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    server = LodeServer(tmp_path / "lake", tokens=frozenset({"one"}), audit_log=file)
    client = Client(server, authorization="Bearer guessed")
    assert client.http("/bigquery/v2/projects/p/datasets")[0] == 401
    with pytest.raises(Exception, match="no valid token"):
        client.create_stream()
    client.close()
    server.stop()
    found = lines(file)
    assert [(line["action"], line["result"]) for line in found] == [("token", "UNAUTHENTICATED")] * 2
    assert {line["client"] for line in found} == {"127.0.0.1"}
    assert "guessed" not in file.read_text()


def test_hostile_names_stay_on_their_line(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    audit = Audit(file)
    audit.change(HOSTILE, HOSTILE, HOSTILE * 1000, HOSTILE, more=HOSTILE)
    audit.refused_token(HOSTILE, HOSTILE)
    audit.close()
    text = file.read_bytes()
    assert text.isascii()
    assert (text.count(b"\n"), text.count(b"\x1b"), text.count(b"\r")) == (2, 0, 0)
    assert [line["action"] == "forged" for line in lines(file)] == [False, False]


def test_a_flood_of_wrong_tokens_is_counted(tmp_path: Path) -> None:
    now = [5.0]
    audit = Audit(tmp_path / "audit.jsonl", clock=lambda: now[0])
    for _ in range(MAX_REFUSALS_PER_SECOND + 30):
        audit.refused_token("a", "GET /x")
    now[0] = 6.0
    audit.refused_token("a", "GET /x")
    audit.close()
    found = lines(tmp_path / "audit.jsonl")
    assert (len(found), found[-1]["omitted"]) == (MAX_REFUSALS_PER_SECOND + 1, 30)


def test_the_file_is_only_for_its_user_and_grows(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    for _ in range(2):
        audit = Audit(file)
        audit.change("a", "b", "c", "OK")
        audit.close()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert len(lines(file)) == 2


def test_a_file_that_was_moved_away_is_begun_again(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    audit = Audit(file)
    audit.change("a", "b", "c", "OK")
    file.rename(tmp_path / "old")
    audit.change("a", "b", "d", "OK")
    audit.close()
    assert [line["target"] for line in lines(file)] == ["d"]


def test_a_file_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidOptionError, match=r"the audit log .* cannot be written .* --audit-log"):
        Audit(tmp_path / "nothing" / "audit.jsonl")


def test_without_a_file_lines_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "lode.audit")
    audit = Audit()
    audit.change("a", "b", "c", "OK")
    audit.refused_token("a", "GET /x")
    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING"]
    assert json.loads(caplog.records[0].getMessage())["action"] == "b"
