"""BigQuery's Storage Read API over snapshots.

``service.py`` answers requests. ``session.py`` has the names that carry a session, ``selection.py`` its
columns and filter, ``plan.py`` the files of its snapshot. ``stream.py`` and ``parquet.py`` read their rows.
"""
