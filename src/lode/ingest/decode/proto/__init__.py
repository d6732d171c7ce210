"""Serialised protobuf messages as rows of a table."""
