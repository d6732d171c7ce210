"""Lineage: which snapshots a snapshot was made from, and positions in a history."""

from lode.lineage.record import Input, Lineage, lineage_of
from lode.lineage.runs import Run

__all__ = ["Input", "Lineage", "Run", "lineage_of"]
