"""The ingest server: BigQuery's Storage Write API onto snapshots.

The way of an append: ``write_service.py`` (the call) → ``rows_arrow.py`` or ``rows_proto.py`` (rows become
an Arrow batch in the table's schema) → ``streams.py`` and ``strategies/`` (offsets and states) →
``log.py`` (what is staged, durably) or ``table.py`` (what is committed, in groups) → ``lode.Dataset``.
"""
