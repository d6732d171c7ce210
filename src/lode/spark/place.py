"""Deprecated in 0.2: ``lode.spark.place.Place`` is ``lode.spark.DatasetRef``."""

from warnings import warn

from lode.spark.dataset_ref import DatasetRef as Place

__all__ = ["Place"]

warn("lode.spark.place.Place is deprecated: use lode.spark.DatasetRef", DeprecationWarning, stacklevel=2)
