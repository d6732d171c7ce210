"""``lode bench``: compares Lode on a store with the minimum of requests to the same store.

``scratch.py`` makes a folder and removes it. ``floor.py`` is a minimal commit. ``commits.py``,
``contention.py``, ``opening.py`` and ``blobs.py`` measure one thing each, in rounds that alternate with the
floor, so that a busy machine slows both. ``results.py`` has the results, ``run.py`` runs all.
"""

from lode.bench.results import Results
from lode.bench.run import measure

__all__ = ["Results", "measure"]
