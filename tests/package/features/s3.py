"""A dataset in a bucket: s3.py ENDPOINT BUCKET."""

from __future__ import annotations

import sys

import lode

endpoint, bucket = sys.argv[1:]
store = lode.open_store(
    f"s3://{bucket}/package",
    endpoint=endpoint,
    region="us-east-1",
    access_key_id="test",
    secret_access_key="test",
    allow_http=True,
)
ds = lode.Dataset.create("visits", store, schema={"n": "int64"})
ds.write([{"n": 1}])
assert ds.scan().read_all().to_pylist() == [{"n": 1}]

for url in ("gs://bucket/lake", "az://container/lake"):
    options = {"account_name": "test", "account_key": "dGVzdA=="} if url.startswith("az") else {}
    assert type(lode.open_store(url, skip_signature=True, **options)).__name__ == "ObjectStore"
