"""Options as people give them, sorted into what obstore calls configuration and client options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_OF_THE_CLIENT: Final = frozenset(
    {
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "default_content_type",
        "default_headers",
        "http1_only",
        "http2_keep_alive_interval",
        "http2_keep_alive_timeout",
        "http2_keep_alive_while_idle",
        "http2_max_frame_size",
        "http2_only",
        "pool_idle_timeout",
        "pool_max_idle_per_host",
        "proxy_ca_certificate",
        "proxy_excludes",
        "proxy_url",
        "randomize_addresses",
        "timeout",
        "user_agent",
    }
)
_PREFIXES: Final = ("aws_", "google_", "azure_")


def sorted_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Put the client's options where they belong.

    obstore takes one of them beside the configuration too, but then panics when that is read back.
    """
    of_the_client = {_plain(name): value for name, value in options.items() if _plain(name) in _OF_THE_CLIENT}
    if not of_the_client:
        return dict(options)
    kept = {name: value for name, value in options.items() if _plain(name) not in _OF_THE_CLIENT}
    return {**kept, "client_options": {**of_the_client, **(options.get("client_options") or {})}}


def _plain(name: str) -> str:
    lower = name.lower()
    prefix = next((prefix for prefix in _PREFIXES if lower.startswith(prefix)), "")
    return lower.removeprefix(prefix)
