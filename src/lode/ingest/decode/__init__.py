"""Decoders of rows: Arrow, Protobuf and JSON become Arrow batches in the table's schema.

``arrow.py``, ``proto/`` and ``json.py`` return columns of their own types. ``fill.py`` completes them and
``types/fit.py`` casts and checks their values, the same for all.
"""
