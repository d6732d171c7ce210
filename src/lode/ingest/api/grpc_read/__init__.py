"""BigQuery's Storage Read API over snapshots.

``service.py`` answers; ``session.py`` is what a session's name carries, ``restriction.py`` understands
filters, ``plan.py`` chooses files, ``stream.py`` reads them.
"""
