"""The ingest server: BigQuery's Storage Write API, which commits rows as snapshots.

The path of an append: ``api/write_service.py`` (the call) → ``api/append_call.py`` (one request) →
``decode/`` (rows become an Arrow batch in the table's schema) → ``core/streams.py`` with
``core/strategies.py`` (offsets and states) → ``core/group.py`` (appends that share the work) → ``log/``
(staged rows) or ``core/table_writer.py`` (commits) → ``lode.Dataset``. Staged rows become visible by
``core/publish.py``.
"""
