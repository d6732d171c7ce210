"""The read service inside a server: it stops with the server, and expired sessions are removed."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING

from google.cloud.bigquery_storage_v1 import types

from lode.testing.plugin import LodeServer
from support.ingest.appending import FIELDS

if TYPE_CHECKING:
    from pathlib import Path

LONG_AGO = 1_000_000_000


def test_a_stopped_server_leaves_no_reader_threads(tmp_path: Path) -> None:
    server = LodeServer(tmp_path / "lake")
    name = server.create_table("p.d.t", FIELDS)
    others = set(threading.enumerate())
    wanted = types.ReadSession(table=name, data_format=types.DataFormat.ARROW)
    server.read_client().create_read_session(parent="projects/p", read_session=wanted)
    readers = [each for each in set(threading.enumerate()) - others if each.name.startswith("lode-read")]
    assert readers
    server.stop()
    for reader in readers:
        reader.join(120)
        assert not reader.is_alive()


def test_a_server_that_starts_removes_read_sessions_that_have_expired(tmp_path: Path) -> None:
    folder = tmp_path / "lake" / "read-sessions"
    folder.mkdir(parents=True)
    old, new = folder / f"{'0' * 64}.json", folder / f"{'1' * 64}.json"
    for file in (old, new):
        file.write_bytes(b"{}")
    os.utime(old, (LONG_AGO, LONG_AGO))
    server = LodeServer(tmp_path / "lake")
    deadline = time.monotonic() + 120
    while old.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    server.stop()
    assert [file.name for file in folder.iterdir()] == [new.name]
