"""``lode bench``: this store with Lode, against the least that this store could do.

``scratch.py`` is where it works and what it removes again; ``floor.py`` the least a commit can be;
``commits.py``, ``contention.py``, ``opening.py`` and ``blobs.py`` measure one thing each, in rounds that take
turns with the floor, so that a busy machine slows both; ``results.py`` is what they found, ``run.py`` puts
them together.
"""

from lode.bench.results import Results
from lode.bench.run import measure

__all__ = ["Results", "measure"]
