"""Rows become Arrow batches in the table's schema: from Arrow, from Protobuf and from JSON.

``arrow.py``, ``proto.py`` and ``json.py`` are the three ways in. Each brings columns of its own types;
``fill.py`` completes them and ``fit*.py`` casts and checks their values, the same for all. ``decimals.py``,
``intervals.py`` and ``geography.py`` read the values of their types.
"""
