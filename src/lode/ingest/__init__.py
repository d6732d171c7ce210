"""The ingest server: BigQuery's Storage Write API onto snapshots.

The way of an append: ``write_service.py`` (the call) → ``append_call.py`` (one request) → ``rows/`` (rows
become an Arrow batch in the table's schema) → ``streams.py`` and ``strategies/`` (offsets and states) →
``log/`` (what is staged, durably) or ``table.py`` (what is committed, in groups) → ``lode.Dataset``.
"""
