"""Conditions as SQL text, understood by the library, the command line and the server alike.

``tokens.py`` and ``syntax.py`` parse the text into a tree, ``conditions.py`` compiles the tree into an Arrow
expression, with ``functions.py``, ``arithmetic.py`` and ``values.py``. ``literals.py`` reads the defaults of
columns, which are no conditions.
"""

from __future__ import annotations

from lode.filter.conditions import Filter, parse_filter

__all__ = ["Filter", "parse_filter"]
