"""The way of a read: resolve the head, walk the history, scan the files."""
