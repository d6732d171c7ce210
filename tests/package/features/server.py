"""``lode serve`` takes a row over gRPC, and shows the console as ``lode ui`` does."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import Request, urlopen

import grpc
from google.cloud.bigquery_storage_v1 import types
from google.protobuf import descriptor_pb2

import lode

if TYPE_CHECKING:
    from collections.abc import Iterator

LODE = str(Path(sys.executable).with_name("lode"))
Field = descriptor_pb2.FieldDescriptorProto
AppendRequest: Any = types.AppendRowsRequest.pb()
AppendResponse: Any = types.AppendRowsResponse.pb()


def post(url: str, body: dict[str, Any]) -> None:
    urlopen(
        Request(url, json.dumps(body).encode(), {"content-type": "application/json"}), timeout=120
    ).close()


def append(address: str) -> None:
    described = descriptor_pb2.DescriptorProto(name="Row")
    described.field.add(name="n", number=1, type=Field.TYPE_INT64, label=Field.LABEL_OPTIONAL)
    request = AppendRequest(write_stream="projects/p/datasets/d/tables/t/streams/_default")
    request.proto_rows.writer_schema.proto_descriptor.CopyFrom(described)
    request.proto_rows.rows.serialized_rows.append(b"\x08\x07")  # field 1 is 7
    with grpc.insecure_channel(address) as channel:
        call: Any = channel.stream_stream(
            "/google.cloud.bigquery.storage.v1.BigQueryWrite/AppendRows",
            request_serializer=AppendRequest.SerializeToString,
            response_deserializer=AppendResponse.FromString,
        )
        (answer,) = call(iter([request]), timeout=120)
    assert not answer.HasField("error"), answer


@contextmanager
def started(*words: str) -> Iterator[str]:
    """Run a command that serves, and give the first line that it prints."""
    with subprocess.Popen([LODE, *words], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline()
        finally:
            process.terminate()


with started("serve", "--root", "lake", "--port", "0", "--http-port", "0", "--json") as line:
    served = json.loads(line)
    http = served["http"] if served["http"].startswith("http") else f"http://{served['http']}"
    base = f"{http}/bigquery/v2/projects/p/datasets"
    reference = {"projectId": "p", "datasetId": "d"}
    post(base, {"datasetReference": reference})
    fields = {"fields": [{"name": "n", "type": "INT64"}]}
    post(f"{base}/d/tables", {"tableReference": {**reference, "tableId": "t"}, "schema": fields})
    append(served["grpc"])
assert lode.Dataset("p.d.t", "lake").scan().read_all().to_pylist() == [{"n": 7}]

with started("ui", "--root", "lake", "--port", "0") as line, urlopen(line.strip(), timeout=120) as page:
    assert b"<html" in page.read()

on_s3 = [LODE, "serve", "--root", "s3://bucket/lake", "--state", "state", "--port", "0", "--http-port", "0"]
refused = subprocess.run(on_s3, capture_output=True, text=True, check=False, timeout=120)
assert refused.returncode == 1
assert "s3:// needs obstore, which is not installed: pip install 'lode-store[s3]'" in refused.stderr
