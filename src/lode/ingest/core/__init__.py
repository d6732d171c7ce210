"""Streams, their tables and what becomes visible: the server without its protocols."""
