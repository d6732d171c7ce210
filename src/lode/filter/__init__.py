"""Conditions as SQL text, the same for the library, the command line and the server.

``tokens.py`` and ``syntax.py`` parse the text into a tree. ``conditions.py`` compiles the tree into an Arrow
expression, with ``compiler.py``, ``functions.py``, ``casts.py``, ``arithmetic.py`` and ``values.py``.
"""

from __future__ import annotations

from lode.filter.conditions import Filter, parse_filter

__all__ = ["Filter", "parse_filter"]
