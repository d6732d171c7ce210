"""The same commands on a bucket, reached by options on the line."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cli.running import Run
    from lode.testing.servers import S3Server


def test_a_bucket_is_reached_by_store_options(run: Run, s3_server: S3Server) -> None:
    options = s3_server.options
    http = options.pop("client_options")["allow_http"]
    given = [f"{name}={value}" for name, value in options.items()] + [f"client_options.allow_http={http}"]
    place = ["-r", "s3://lake/cli", *(word for pair in given for word in ("-o", pair))]
    assert run("write", "events", "-p", "kind", *place, stdin=b'{"kind": "a", "n": 1}\n').code == 0
    assert run("cat", "events", *place, "-w", "n = 1").json == [{"kind": "a", "n": 1}]
    assert run("sql", "SELECT sum(n) AS n FROM events", *place).json == [{"n": 1}]
    assert run("ls", *place, "--json").json[0]["partitioned_by"] == ["kind"]
    assert run("verify", "events", *place).code == 0
    assert run("doctor", *place, "--json").json[0]["store"]["healthy"] is True
    assert run("ls", "-r", "s3://lake/cli", "-o", "nothing=1").code == 2
