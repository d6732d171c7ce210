"""A pytest plugin for people who test BigQuery writers: the fixture ``lode_server``.

Installed with ``lode-store[server]``, it is found by pytest itself. Each test gets a server of its own, in
this process, on free ports of loopback, over a lake in the test's temporary directory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lode.extras import needs

with needs("lode.testing.plugin", "testing"):
    import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa
    from google.cloud import bigquery, bigquery_storage_v1

    import lode
    from lode.ingest.catalog.table import TableDefinition
    from lode.store.protocol import Store


class LodeServer:
    """A running server, and the official clients connected to it."""

    def __init__(self, root: str | Path | Store, **settings: Any) -> None:
        with needs("the pytest fixture lode_server", "server"):
            from lode.ingest.server import RunningServer
        from lode.ingest.settings import Settings

        self.root = root
        self._running = RunningServer(Settings(**{"root": root, "port": 0, "http_port": 0, **settings}))
        self._channels: list[Any] = []

    @property
    def grpc_address(self) -> str:
        """``host:port`` of the Storage Write and Read APIs, without TLS."""
        return self._running.grpc_address

    @property
    def http_url(self) -> str:
        """The base URL of REST, ``/metrics`` and ``/healthz``."""
        return self._running.http_url

    def channel(self) -> Any:
        """A new gRPC channel to the server; closed with it."""
        import grpc

        options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
        channel = grpc.insecure_channel(self.grpc_address, options=options)
        self._channels.append(channel)
        return channel

    def write_client(self) -> bigquery_storage_v1.BigQueryWriteClient:
        """The official client of the Storage Write API."""
        from google.cloud.bigquery_storage_v1 import BigQueryWriteClient
        from google.cloud.bigquery_storage_v1.services.big_query_write.transports import (
            BigQueryWriteGrpcTransport,
        )

        make: Any = BigQueryWriteClient  # its constructor has no types
        client: BigQueryWriteClient = make(transport=BigQueryWriteGrpcTransport(channel=self.channel()))
        return client

    def read_client(self) -> bigquery_storage_v1.BigQueryReadClient:
        """The official client of the Storage Read API."""
        from google.cloud.bigquery_storage_v1 import BigQueryReadClient
        from google.cloud.bigquery_storage_v1.services.big_query_read.transports import (
            BigQueryReadGrpcTransport,
        )

        make: Any = BigQueryReadClient  # its constructor has no types
        client: BigQueryReadClient = make(transport=BigQueryReadGrpcTransport(channel=self.channel()))
        return client

    def bigquery_client(self, project: str = "test") -> bigquery.Client:
        """The official client of the REST API; needs ``lode-store[testing]``."""
        with needs("LodeServer.bigquery_client", "testing"):
            import google.cloud.bigquery as bigquery
            from google.auth.credentials import AnonymousCredentials

        return bigquery.Client(
            project=project,
            credentials=AnonymousCredentials(),  # type: ignore[no-untyped-call]
            client_options={"api_endpoint": self.http_url},
        )

    def create_table(self, name: str, schema: Any, **resource: Any) -> str:
        """Create ``project.dataset.table``, and the dataset if need be; returns the table's resource name.

        Args:
            name: ``project.dataset.table``.
            schema: REST fields (``{"name": …, "type": …}``), or an Arrow schema.
            resource: Further fields of the REST resource, such as ``timePartitioning``.
        """
        import json
        from urllib.request import Request, urlopen

        from lode.ingest.types.arrow import from_arrow
        from lode.ingest.types.rest import to_rest

        project, dataset, table = name.rsplit(".", 2)
        columns = {"fields": schema} if isinstance(schema, list) else to_rest(from_arrow(schema))
        base = f"{self.http_url}/bigquery/v2/projects/{project}/datasets"
        of_dataset = {"projectId": project, "datasetId": dataset}

        def post(url: str, body: dict[str, Any], *, may_exist: bool) -> None:
            from urllib.error import HTTPError

            request = Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
            try:
                urlopen(request).close()
            except HTTPError as error:
                with error:
                    if not (may_exist and error.code == 409):
                        raise AssertionError(f"{url}: {error.read().decode()}") from None

        post(base, {"datasetReference": of_dataset}, may_exist=True)
        described = {"tableReference": {**of_dataset, "tableId": table}, "schema": columns}
        post(f"{base}/{dataset}/tables", {**described, **resource}, may_exist=False)
        return f"projects/{project}/datasets/{dataset}/tables/{table}"

    def dataset(self, name: str) -> lode.Dataset:
        """The dataset of ``project.dataset.table``, to look at its snapshots."""
        return self._table(name).open(self._running.engine.store)

    def _table(self, name: str) -> TableDefinition:
        from lode.ingest.names import TableName

        return self._running.engine.catalog.table(TableName(*name.rsplit(".", 2)), fresh=True)

    def rows(self, name: str) -> pa.Table:
        """Everything visible in ``project.dataset.table``, without the numbers of changes."""
        from lode.ingest.types.changes import CHANGE_SEQUENCE

        dataset = self.dataset(name)
        rows = dataset.scan().read_all() if dataset.exists else self._table(name).arrow.empty_table()
        return rows.select([column for column in rows.column_names if column != CHANGE_SEQUENCE])

    def stop(self) -> None:
        """Stop the server, gracefully."""
        for channel in self._channels:
            channel.close()
        self._running.stop()


@pytest.fixture
def lode_server(tmp_path: Path) -> Iterator[LodeServer]:
    """A BigQuery Storage Write API server over an empty lake."""
    server = LodeServer(tmp_path / "lake")
    yield server
    server.stop()
