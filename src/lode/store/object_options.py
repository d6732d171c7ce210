"""Options of object stores, sorted into obstore's configuration and client options."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from lode.errors import InvalidOptionError
from lode.near import did_you_mean

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
        "read_timeout",
        "root_certificate",
        "timeout",
        "user_agent",
    }
)
_PREFIXES: Final = ("aws_", "google_", "azure_storage_", "azure_")
_OF_ALL: Final = ("client_options", "retry_config", "credential_provider", "skip_signature")
# The usual options, for suggestions. obstore knows more.
_OF_THE_STORE: Final = {
    "s3": (
        "access_key_id",
        "secret_access_key",
        "session_token",
        "region",
        "endpoint",
        "virtual_hosted_style_request",
        "unsigned_payload",
        "checksum_algorithm",
        "conditional_put",
        "metadata_endpoint",
        "request_payer",
        "role_arn",
        "s3_express",
        "sse_kms_key_id",
        "server_side_encryption",
        "web_identity_token_file",
    ),
    "gs": ("service_account", "service_account_key", "application_credentials", "bearer_token", "base_url"),
    "az": (
        "account_name",
        "account_key",
        "sas_key",
        "client_id",
        "client_secret",
        "tenant_id",
        "endpoint",
        "authority_host",
        "federated_token_file",
        "msi_endpoint",
        "use_azure_cli",
        "use_emulator",
        "use_fabric_endpoint",
    ),
}
_ENDPOINTS: Final = ("endpoint", "endpoint_url", "endpoint_url_s3", "base_url", "metadata_endpoint")
_ENDPOINT_VARIABLES: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_UNKNOWN: Final = re.compile(r"Configuration key: '([^']*)'|Invalid key: (.*?)\.?$", re.MULTILINE)
_UNREADABLE: Final = re.compile(r'failed to parse "(.*)" as (\w+)')
_FORMS: Final = {"Duration": "a time such as 30s", "boolean": "true or false"}
_GUIDE: Final = "docs/guides/object-stores.md#credentials"


def sorted_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Move the client's options into ``client_options``.

    obstore also accepts them outside the configuration, but panics when the configuration is read back.
    """
    of_the_client = {_plain(name): value for name, value in options.items() if _plain(name) in _OF_THE_CLIENT}
    if not of_the_client:
        return dict(options)
    kept = {name: value for name, value in options.items() if _plain(name) not in _OF_THE_CLIENT}
    return {**kept, "client_options": {**of_the_client, **(options.get("client_options") or {})}}


def check_endpoints(scheme: str, options: Mapping[str, Any]) -> None:
    """Refuse an endpoint that is no URL: obstore panics at the first request to one."""
    given = [(name, value) for name, value in options.items() if _plain(name) in _ENDPOINTS]
    if scheme == "s3":
        given += [(name, os.environ[name]) for name in _ENDPOINT_VARIABLES if os.environ.get(name)]
    for name, value in given:
        if not isinstance(value, str) or not _is_endpoint(value):
            # Without a possible password.
            place = repr(value.rpartition("@")[2] if isinstance(value, str) else value)
            raise InvalidOptionError(
                f"{name} is {place}, which is no URL: write https://host or http://host:port"
            )
        if "@" in urlsplit(value).netloc:
            raise InvalidOptionError(f"{name} has a user name in it: give the key as an option instead")


def _is_endpoint(text: str) -> bool:
    try:
        parts = urlsplit(text)
        _ = parts.port  # raises if it is none
    except ValueError:
        return False
    is_plain = text.isprintable() and not any(char.isspace() for char in text)
    return is_plain and parts.scheme in ("http", "https") and bool(parts.hostname)


def option_fault(scheme: str, options: Mapping[str, Any], error: Exception) -> str:
    """Return the error in the options as one sentence."""
    text = " ".join(str(error).partition("\n\nDebug source")[0].split())
    if match := _UNKNOWN.search(text):
        name = match[1] or match[2]
        known = (*_OF_THE_STORE[scheme], *_OF_ALL, *sorted(_OF_THE_CLIENT))
        hint = did_you_mean(_plain(name), known) or f"there are {', '.join(_OF_THE_STORE[scheme])} and more"
        return f"{scheme}:// has no option {name!r}: {hint}"
    if match := _UNREADABLE.search(text):
        nested = options.get("client_options") or {}
        names = [name for name, value in {**options, **nested}.items() if str(value) == match[1]]
        return f"option {names[0] if names else '?'!r} is {match[1]!r}: give {_FORMS.get(match[2], match[2])}"
    if "Account must be specified" in text:
        return (
            "the storage account is missing: give account_name, set AZURE_STORAGE_ACCOUNT_NAME, or write "
            f"abfss://container@account.dfs.core.windows.net/prefix ({_GUIDE})"
        )
    if "Invalid Access Key" in text:
        return f"account_key is not base64: copy the whole key ({_GUIDE})"
    return re.sub(r"^Generic \w+ error: ", "", text)


def _plain(name: str) -> str:
    lower = name.lower()
    prefix = next((prefix for prefix in _PREFIXES if lower.startswith(prefix)), "")
    return lower.removeprefix(prefix)
