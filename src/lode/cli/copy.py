"""``lode copy``: a dataset, a volume or a whole lake to another store, with its history."""


def copy() -> None:
    """Copy."""
