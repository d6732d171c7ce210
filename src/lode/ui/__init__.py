"""The console: a page to look at datasets, volumes and write streams. It reads, and never writes."""

from lode.extras import needs

with needs("lode.ui", "server"):
    from lode.ui.routes import application, is_public, routes

__all__ = ["application", "is_public", "routes"]
