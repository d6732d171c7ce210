"""Lineage: which snapshots a snapshot was made from, and positions in a history."""

from lode.lineage.record import Input, Lineage, lineage_of

__all__ = ["Input", "Lineage", "lineage_of"]
