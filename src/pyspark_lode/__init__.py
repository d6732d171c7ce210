"""Registers the data source of Lode with Spark."""
