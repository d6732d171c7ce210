"""Reads: resolve the head, walk the history, scan the files."""
