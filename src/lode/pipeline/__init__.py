"""Pipelines: from datasets through SQL or Python on Spark to a dataset, each input snapshot exactly once."""

from lode.extras import needs

with needs("lode.pipeline", "spark"):
    from lode.pipeline.batch import Batch, Plan
    from lode.pipeline.expectation import Counts, Expectation, counts_of
    from lode.pipeline.file import load, parse
    from lode.pipeline.pipeline import Pipeline
    from lode.pipeline.project import Project

__all__ = ["Batch", "Counts", "Expectation", "Pipeline", "Plan", "Project", "counts_of", "load", "parse"]
