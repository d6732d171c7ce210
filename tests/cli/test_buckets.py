"""The same commands on a bucket, reached by options on the line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lode

if TYPE_CHECKING:
    from lode.testing.servers import S3Server
    from support.cli.running import Run


def test_a_bucket_is_reached_by_store_options(run: Run, s3_server: S3Server) -> None:
    options = s3_server.options
    http = options.pop("client_options")["allow_http"]
    given = [f"{name}={value}" for name, value in options.items()] + [f"allow_http={http}"]
    place = ["-r", "s3://lake/cli", *(word for pair in given for word in ("-o", pair))]
    assert run("write", "events", "-p", "kind", *place, stdin=b'{"kind": "a", "n": 1}\n').code == 0
    assert run("cat", "events", *place, "-w", "n = 1").json == [{"kind": "a", "n": 1}]
    assert run("sql", "SELECT sum(n) AS n FROM events", *place).json == [{"n": 1}]
    assert run("ls", *place, "--json").json[0]["partitioned_by"] == ["kind"]
    assert run("verify", "events", *place).code == 0
    assert run("doctor", *place, "--json").json[0]["store"]["healthy"] is True
    assert run("ls", "-r", "s3://lake/cli", "-o", "nothing=1").code == 2


def test_a_bucket_is_measured_and_left_as_it_was(run: Run, s3_server: S3Server) -> None:
    options = s3_server.options
    options.update(options.pop("client_options"))
    given = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    ended = run("bench", "s3://lake/measured", *given, "--seconds", "0.1", "--writers", "2", "--json")
    assert ended.code == 0
    assert ended.json[0]["contention"]["processes"]
    assert list(lode.open_store("s3://lake/measured", **options).list()) == []
