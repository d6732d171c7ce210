"""The console: a read-only page that shows datasets, volumes and write streams."""

from lode.extras import needs

with needs("lode.ui", "server"):
    from lode.ui.routes import application, is_public, routes

__all__ = ["application", "is_public", "routes"]
