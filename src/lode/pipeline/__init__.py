"""Pipelines: from datasets through SQL or Python on Spark to a dataset, each input snapshot exactly once."""

from lode.extras import needs

with needs("lode.pipeline", "spark"):
    from lode.pipeline.expectation import Expectation
    from lode.pipeline.file import load, parse
    from lode.pipeline.pipeline import Batch, Pipeline
    from lode.pipeline.project import Project

__all__ = ["Batch", "Expectation", "Pipeline", "Project", "load", "parse"]
