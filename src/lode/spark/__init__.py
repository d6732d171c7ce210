"""Datasets on Spark: tasks stage files in parallel, the driver makes one commit."""
