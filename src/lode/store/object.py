"""A store in object storage: S3, Google Cloud Storage, Azure Blob, all through obstore.

Creating sends ``If-None-Match: *``, and swapping the etag of the expected pointer. There are two clients: one
retries by itself and makes every request that may be repeated; the other never retries and makes the
conditional writes. If a client repeats a conditional write after a lost response, the condition fails because
of its own first attempt. So after a lost response the object is read back instead.
"""

from __future__ import annotations

import random
import time
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from cachetools import LRUCache

from lode.errors import (
    InvalidOptionError,
    LodeError,
    NotFoundError,
    OutcomeUnknownError,
    PathExistsError,
    StoreError,
    UsageError,
)
from lode.extras import needs
from lode.store.object_errors import (
    Refusal,
    RefusedWrite,
    is_no_bucket,
    reason_of,
    refusal,
    status_of,
    translated,
)
from lode.store.object_list import list_objects
from lode.store.object_options import check_endpoints, option_fault, sorted_options
from lode.store.object_writer import ObjectStoreWriter
from lode.store.protocol import (
    ObjectInfo,
    ObjectReader,
    byte_view,
    check_path,
    check_prefix,
    check_range,
    same_content,
)
from lode.store.urls import canonical, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from obstore import PutMode, UpdateVersion
    from typing_extensions import Buffer

_EXTRAS = {"s3": "s3", "gs": "gcs", "az": "azure"}
_MAX_ATTEMPTS = 8
# Only pointers and intents are swapped. A larger object is read again before it is swapped.
_MAX_CACHED_VERSIONS = 256
_MAX_CACHED_BYTES = 16 << 10
_MAX_OFFSET_BYTES = 1 << 62


def open_object_store(url: str, **options: Any) -> ObjectStore:
    """Open ``s3://bucket/prefix``, ``gs://bucket/prefix`` or ``az://container/prefix``, in any spelling.

    Args:
        url: Bucket or container, and a prefix taken literally. ``lode.store.urls`` lists the schemes.
        options: The options of obstore's store: its configuration (``endpoint``, ``region``,
            ``access_key_id``, …), ``client_options`` or one of them by itself (``allow_http``, ``timeout``,
            …), ``retry_config``, ``credential_provider``.
    """
    given = url
    url, options = canonical(url, options)
    scheme, _, rest = url.partition("://")
    bucket, _, prefix = rest.partition("/")
    check_endpoints(scheme, options)
    with needs(f"{scheme}://", _EXTRAS[scheme]):
        from obstore import exceptions, store
    kinds: dict[str, Any] = {"s3": store.S3Store, "gs": store.GCSStore, "az": store.AzureStore}
    try:
        client = kinds[scheme](bucket, **sorted_options(options))
    except (exceptions.BaseError, ValueError, TypeError) as error:
        fault = option_fault(scheme, options, error)
        raise InvalidOptionError(f"cannot open {shown(given)}: {fault}") from error
    return ObjectStore(client, url=f"{scheme}://{bucket}", prefix=prefix)


class _Version(NamedTuple):
    """The content of an object, and the version that a conditional write must name to replace it."""

    content: bytes
    version: UpdateVersion


class ObjectStore:
    """Objects in one bucket below a prefix.

    Args:
        client: An obstore store.
        url: The bucket's URL, for messages.
        prefix: Precedes every path.
        part_size: The size of the parts of a streaming upload, in bytes; S3 allows 10,000 parts.
        sleep: Waits before a retry.
    """

    def __init__(
        self,
        client: Any,
        *,
        url: str,
        prefix: str = "",
        part_size: int = 8 << 20,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.client = client
        self._conditional = _without_retries(client)
        self._bucket_url = url.rstrip("/")
        self._prefix = f"{check_path(prefix.strip('/'))}/" if prefix.strip("/") else ""
        self._part_size = part_size
        self._sleep = sleep
        self._versions: LRUCache[str, _Version] = LRUCache(_MAX_CACHED_VERSIONS)
        self._lock = Lock()

    @property
    def url(self) -> str:
        return f"{self._bucket_url}/{self._prefix}".rstrip("/")

    def __repr__(self) -> str:
        return f"ObjectStore({self.url!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self.client, self._bucket_url, self._prefix, self._part_size)

    def put(self, path: str, data: Buffer) -> None:
        key = self._key(path)
        content = data if isinstance(data, bytes) else bytes(byte_view(data))
        doubtful = False
        error: Exception | None = None
        for attempt in range(_MAX_ATTEMPTS):
            outcome = self._try_put(path, key, content, "create", doubtful=doubtful)
            if outcome is None:
                return
            error = outcome.error
            if outcome.why is Refusal.CONDITION and not doubtful:
                raise PathExistsError(f"{path!r} exists already in {self.url}") from error
            doubtful = doubtful or outcome.why is Refusal.UNKNOWN
            self._back_off(outcome, attempt)
            current = self._read_back(path, key, doubtful=doubtful)
            if current is not None:
                if doubtful and current.content == content:
                    return
                raise PathExistsError(f"{path!r} exists already in {self.url}") from error
        raise self._gave_up(path, error, doubtful=doubtful) from error

    def get(self, path: str) -> bytes:
        found = self._read(path, self._key(path))
        if found is None:
            raise NotFoundError(f"no object {path!r} in {self.url}")
        return found.content

    def get_range(self, path: str, offset: int, length: int) -> bytes:
        import obstore

        key = self._key(path)
        check_range(path, offset, length)
        if not length:
            self.head(path)
            return b""
        offset, length = min(offset, _MAX_OFFSET_BYTES), min(length, _MAX_OFFSET_BYTES)
        try:
            return bytes(obstore.get_range(self.client, key, start=offset, length=length))
        except Exception as error:
            # S3 responds with 416; Azure may send a response that obstore finds too short.
            status = status_of(error)
            if status == 416 or (status is None and offset >= self.head(path).size):
                return b""
            raise translated(error, path) from error

    def exists(self, path: str) -> bool:
        try:
            self.head(path)
        except NotFoundError:
            return False
        return True

    def head(self, path: str) -> ObjectInfo:
        import obstore

        key = self._key(path)
        try:
            meta = obstore.head(self.client, key)
        except Exception as error:
            raise translated(error, path) from error
        return ObjectInfo(path, meta["size"], meta["last_modified"])

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        return list_objects(self.client, self._prefix, check_prefix(prefix), after)

    def delete(self, path: str) -> None:
        import obstore

        key = self._key(path)
        self._forget(key)
        try:
            obstore.delete(self.client, key)
        except FileNotFoundError:
            return
        except Exception as error:
            raise translated(error, path) from error

    def open_reader(self, path: str) -> ObjectStoreReader:
        return ObjectStoreReader(self, self.head(path))

    def open_writer(self, path: str) -> ObjectStoreWriter:
        return ObjectStoreWriter(self, self.client, path, self._key(path), self._part_size)

    def compare_and_swap(self, path: str, expected: bytes | None, replacement: bytes) -> bool:
        key = self._key(path)
        with self._lock:
            current = self._versions.get(key)
        doubtful = False
        error: Exception | None = None
        for attempt in range(_MAX_ATTEMPTS):
            if expected is not None and (current is None or not same_content(current.content, expected)):
                current = self._read(path, key)
                if current is None or not same_content(current.content, expected):
                    return False
            mode: PutMode = "create" if expected is None or current is None else current.version
            outcome = self._try_put(path, key, replacement, mode, doubtful=doubtful)
            if outcome is None:
                return True
            error = outcome.error
            if outcome.why is Refusal.CONDITION and not doubtful:
                # Another writer was first. The caller reads the present content, so this does not.
                return False
            doubtful = doubtful or outcome.why is Refusal.UNKNOWN
            self._back_off(outcome, attempt)
            current = self._read_back(path, key, doubtful=doubtful)
            if doubtful and current is not None and current.content == replacement:
                return True
            if not same_content(None if current is None else current.content, expected):
                if doubtful:
                    # This write may have landed, and a writer that built on it may have replaced it.
                    raise OutcomeUnknownError(
                        f"the swap of {path!r} was sent and its response lost, and the object has other "
                        "content by now: the swap may or may not have taken effect before"
                    ) from error
                return False
        raise self._gave_up(path, error, doubtful=doubtful) from error

    def _try_put(
        self, path: str, key: str, content: bytes, mode: PutMode, *, doubtful: bool
    ) -> RefusedWrite | None:
        import obstore

        try:
            result = obstore.put(self._conditional, key, content, mode=mode, use_multipart=False)
        except Exception as error:
            self._forget(key)
            try:
                return RefusedWrite(refusal(error, path, creating=mode == "create"), error)
            except LodeError as final:
                if not doubtful:
                    raise
                raise OutcomeUnknownError(
                    f"the write of {path!r} was sent, its response lost, and a second attempt failed: {final}"
                ) from error
        self._remember(key, _Version(content, _version(result)))
        return None

    def _read(self, path: str, key: str) -> _Version | None:
        import obstore

        try:
            result = obstore.get(self.client, key)
            found = _Version(bytes(result.bytes()), _version(result.meta))
        except FileNotFoundError as error:
            self._forget(key)
            if is_no_bucket(error):
                raise translated(error, path) from error
            return None
        except Exception as error:
            raise translated(error, path) from error
        self._remember(key, found)
        return found

    def _read_back(self, path: str, key: str, *, doubtful: bool) -> _Version | None:
        try:
            return self._read(path, key)
        except LodeError as error:
            if not doubtful:
                raise
            raise OutcomeUnknownError(
                f"the write of {path!r} was sent, its response lost, and reading back failed: {error}"
            ) from error

    def _back_off(self, refused: RefusedWrite, attempt: int) -> None:
        if refused.why is not Refusal.CONDITION:
            self._sleep(min(2.0, 0.05 * 2**attempt) * random.uniform(0.5, 1.0))

    def _gave_up(self, path: str, error: Exception | None, *, doubtful: bool) -> StoreError:
        if doubtful:
            return OutcomeUnknownError(f"the write of {path!r} was sent and its response lost, repeatedly")
        why = f", the last time because {reason_of(error).text}" if error is not None else ""
        return StoreError(f"cannot write {path!r}: the store rejected it {_MAX_ATTEMPTS} times{why}")

    def _remember(self, key: str, found: _Version) -> None:
        if len(found.content) <= _MAX_CACHED_BYTES:
            with self._lock:
                self._versions[key] = found

    def _forget(self, key: str) -> None:
        with self._lock:
            self._versions.pop(key, None)

    def _key(self, path: str) -> str:
        return f"{self._prefix}{check_path(path)}"


class ObjectStoreReader(ObjectReader):
    """Random access by range requests. It holds no connection open and is safe for threads."""

    def __init__(self, store: ObjectStore, info: ObjectInfo) -> None:
        self._store = store
        self._info = info
        self._open = True

    @property
    def size(self) -> int:
        return self._info.size

    def read_at(self, offset: int, length: int) -> bytes:
        check_range(self._info.path, offset, length)
        if not self._open:
            raise UsageError(f"the reader of {self._info.path!r} is closed")
        length = min(length, self._info.size - offset)
        return self._store.get_range(self._info.path, offset, length) if length > 0 else b""

    def close(self) -> None:
        self._open = False


def _version(source: Any) -> UpdateVersion:
    version: UpdateVersion = {}
    if source["e_tag"] is not None:
        version["e_tag"] = source["e_tag"]
    if source["version"] is not None:
        version["version"] = source["version"]
    return version


def _without_retries(client: Any) -> Any:
    return type(client)(
        config=client.config,
        client_options=client.client_options,
        retry_config={**(client.retry_config or {}), "max_retries": 0},
        credential_provider=client.credential_provider,
        prefix=client.prefix,
    )


def _reopen(client: Any, url: str, prefix: str, part_size: int) -> ObjectStore:
    return ObjectStore(client, url=url, prefix=prefix, part_size=part_size)
