"""The URLs of object storage, and the one spelling of each that Lode uses.

| understood | canonical |
| --- | --- |
| ``s3://``, ``s3a://``, ``s3n://`` | ``s3://bucket/prefix`` |
| ``gs://``, ``gcs://`` | ``gs://bucket/prefix`` |
| ``az://``, ``azure://``, ``abfs[s]://``, ``wasb[s]://`` | ``az://container/prefix`` |

A URL of Azure may name the account: ``abfss://container@account.dfs.core.windows.net/prefix``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from lode.errors import InvalidOptionError

if TYPE_CHECKING:
    from collections.abc import Mapping

_CANONICAL: Final = {
    "s3": "s3",
    "s3a": "s3",
    "s3n": "s3",
    "gs": "gs",
    "gcs": "gs",
    "az": "az",
    "azure": "az",
    "abfs": "az",
    "abfss": "az",
    "wasb": "az",
    "wasbs": "az",
}
OBJECT_SCHEMES: Final = tuple(_CANONICAL)
_PUBLIC_AZURE: Final = ("blob.core.windows.net", "dfs.core.windows.net")
_ACCOUNT: Final = ("account_name", "azure_storage_account_name")


def shown(url: str) -> str:
    """Return a URL for messages, quoted, without password and query. A query may contain a signature."""
    start, separator, rest = url.partition("://")
    authority, slash, path = rest.partition("?")[0].partition("/")
    user, at, host = authority.rpartition("@")
    if at and (":" in user or start.lower() in ("http", "https", "file")):
        authority = f"…@{host}"
    return repr(f"{start}{separator}{authority}{slash}{path}" if separator else url)


def canonical(url: str, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the canonical spelling of a URL, and the options with those in the URL.

    Raises:
        InvalidOptionError: It names no bucket, or contradicts an option.
    """
    given, _, rest = url.partition("://")
    scheme = _CANONICAL.get(given.lower(), "s3")
    bucket, _, prefix = rest.partition("/")
    if "?" in rest:
        raise InvalidOptionError(
            f"{shown(url)} has a query, which is no part of a prefix: give options and keys as options"
        )
    if ":" in bucket.rpartition("@")[0]:
        raise InvalidOptionError(
            f"{shown(url)} has a key in it, which would be shown with every error: write "
            f"{scheme}://bucket/prefix and give the key as an option or in the environment"
        )
    container, at, host = bucket.partition("@")
    if not container or given.lower() not in _CANONICAL or (at and scheme != "az"):
        raise InvalidOptionError(f"{shown(url)} names no bucket: write {scheme}://bucket/prefix")
    plain = f"{scheme}://{container}/{prefix}" if prefix else f"{scheme}://{container}"
    if not at:
        return plain, dict(options)
    account, _, suffix = host.partition(".")
    if not account or not suffix:
        raise InvalidOptionError(
            f"{shown(url)} names no account: write abfss://{container}@account.dfs.core.windows.net/{prefix}"
        )
    known = {name.lower(): value for name, value in options.items()}
    for name in _ACCOUNT:
        if known.get(name, account) != account:
            raise InvalidOptionError(
                f"{shown(url)} names the account {account!r} and {name} is {known[name]!r}: give one"
            )
    found = {"account_name": account, **options}
    if suffix not in _PUBLIC_AZURE and "endpoint" not in known:
        # A private cloud. Its blob endpoint has another name than its file system endpoint.
        found["endpoint"] = f"https://{account}.{suffix.replace('dfs.', 'blob.', 1)}"
    return plain, found


def web_address(url: str) -> InvalidOptionError:
    """Return the error for an ``https://`` address, with the URL to use instead."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return _write(url, "s3://bucket/prefix with the option endpoint")
    host = parts.netloc.rpartition("@")[2]
    labels, path = host.lower().split("."), parts.path.strip("/")
    first, _, rest = path.partition("/")
    below = f"/{rest}" if rest else ""
    if host.lower().endswith(".amazonaws.com") and "s3" in labels:
        at = labels.index("s3")
        region = f" with the option region={labels[at + 1]}" if labels[at + 1] != "amazonaws" else ""
        bucket = ".".join(labels[:at])
        meant = f"s3://{bucket}/{path}" if bucket else f"s3://{first}{below}"
        return _write(url, f"{meant.rstrip('/')}{region}")
    if host.lower() in ("storage.googleapis.com", "storage.cloud.google.com"):
        return _write(url, f"gs://{first}{below}")
    if labels[1:2] in (["blob"], ["dfs"]):
        return _write(url, f"az://{first}{below} with the option account_name={labels[0]}")
    meant = f"s3://{first or 'bucket'}{below} with the option endpoint={parts.scheme}://{host}"
    return _write(url, f"{meant} if it speaks S3")


def _write(url: str, meant: str) -> InvalidOptionError:
    return InvalidOptionError(f"{shown(url)} is a web address: write {meant}")
