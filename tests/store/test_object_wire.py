"""What the object store sends, counted on the wire, and what it makes of lost answers."""

from __future__ import annotations

import pickle
import uuid
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from lode.errors import OutcomeUnknownError, PathExistsError, PermissionDeniedError, StoreError
from lode.store import ObjectStore, open_object_store
from lode.testing.servers import AZURITE_ACCOUNT
from lode.upkeep.doctor import diagnose
from support.store.proxy import Proxy, Trick

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lode.testing.servers import AzuriteServer, S3Server

QUICK = {"max_retries": 1, "backoff": {"init_backoff": timedelta(milliseconds=1), "base": 2}}


@pytest.fixture
def url() -> str:
    return f"s3://lake/{uuid.uuid4()}"


@pytest.fixture
def proxy(s3_server: S3Server) -> Iterator[Proxy]:
    with Proxy(s3_server.port) as proxy:
        yield proxy


@pytest.fixture
def store(url: str, proxy: Proxy, s3_server: S3Server) -> ObjectStore:
    """The store under test, whose requests pass the proxy."""
    options: dict[str, Any] = {**s3_server.options, "endpoint": f"http://127.0.0.1:{proxy.port}"}
    return open_object_store(url, retry_config=QUICK, **options)


@pytest.fixture
def other(url: str, s3_server: S3Server) -> ObjectStore:
    """Another writer in the same place, past the proxy."""
    return open_object_store(url, **s3_server.options)


def test_plain_calls_are_one_request_each(store: ObjectStore, proxy: Proxy) -> None:
    store.put("a/x", b"123")
    store.get("a/x")
    store.get_range("a/x", 1, 1)
    store.head("a/x")
    store.exists("a/y")
    list(store.list("a/"))
    store.delete("a/x")
    assert proxy.methods == ["PUT", "GET", "GET", "HEAD", "HEAD", "GET", "POST"]


def test_creating_carries_the_condition(store: ObjectStore, proxy: Proxy) -> None:
    store.put("x", b"1")
    assert proxy.requests[0].headers["if-none-match"] == "*"


def test_a_warm_swap_is_one_request(store: ObjectStore, proxy: Proxy) -> None:
    assert store.compare_and_swap("latest", None, b"1")
    assert store.compare_and_swap("latest", b"1", b"2")
    assert store.compare_and_swap("latest", b"2", b"3")
    assert proxy.methods == ["PUT", "PUT", "PUT"]
    assert "if-match" in proxy.requests[-1].headers


def test_a_swap_of_what_was_just_read_is_one_request(
    store: ObjectStore, other: ObjectStore, proxy: Proxy
) -> None:
    other.put("latest", b"1")
    current = store.get("latest")
    assert store.compare_and_swap("latest", current, b"2")
    assert proxy.methods == ["GET", "PUT"]


def test_a_first_swap_reads_the_etag(store: ObjectStore, other: ObjectStore, proxy: Proxy) -> None:
    other.put("latest", b"1")
    assert store.compare_and_swap("latest", b"1", b"2")
    assert proxy.methods == ["GET", "PUT"]


def test_a_stale_swap_is_one_request_and_reading_tells_the_new_etag(
    store: ObjectStore, other: ObjectStore, proxy: Proxy
) -> None:
    store.compare_and_swap("latest", None, b"1")
    other.compare_and_swap("latest", b"1", b"2")
    proxy.requests.clear()
    assert not store.compare_and_swap("latest", b"1", b"3")
    assert proxy.methods == ["PUT"]
    assert store.get("latest") == b"2"
    proxy.requests.clear()
    assert store.compare_and_swap("latest", b"2", b"3")
    assert proxy.methods == ["PUT"]


def test_a_lost_creation_is_one_request(store: ObjectStore, other: ObjectStore, proxy: Proxy) -> None:
    other.put("latest", b"1")
    assert not store.compare_and_swap("latest", None, b"2")
    assert proxy.methods == ["PUT"]


def test_content_that_came_back_under_a_new_etag_is_swapped_once_it_was_read_again(
    azurite_server: AzuriteServer,
) -> None:
    url = f"az://lake/{uuid.uuid4()}"
    other = open_object_store(url, **azurite_server.options)
    with Proxy(azurite_server.port) as proxy:
        endpoint = f"http://127.0.0.1:{proxy.port}/{AZURITE_ACCOUNT}"
        store = open_object_store(url, **{**azurite_server.options, "endpoint": endpoint})
        store.compare_and_swap("latest", None, b"1")
        other.compare_and_swap("latest", b"1", b"2")
        other.compare_and_swap("latest", b"2", b"1")
        proxy.requests.clear()
        assert not store.compare_and_swap("latest", b"1", b"3")
        assert store.compare_and_swap("latest", b"1", b"3")
        assert proxy.methods == ["PUT", "GET", "PUT"]


def test_only_small_objects_and_not_too_many_are_remembered(store: ObjectStore) -> None:
    store.put("large", bytes(100_000))
    for number in range(300):
        store._remember(f"k{number}", store._versions.get("x") or _version())
    assert len(store._versions) == 256
    assert all(len(found.content) < 20_000 for found in store._versions.values())


def _version() -> Any:
    from lode.store.object import _Version

    return _Version(b"1", {"e_tag": "e"})


def test_a_small_writer_is_one_create_only_request(store: ObjectStore, proxy: Proxy) -> None:
    with store.open_writer("x") as writer:
        for _ in range(100):
            writer.write(b"piece")
        writer.commit()
    assert proxy.methods == ["PUT"]
    assert proxy.requests[0].headers["if-none-match"] == "*"


def test_a_large_writer_uploads_parts_of_its_size(store: ObjectStore, proxy: Proxy) -> None:
    with store.open_writer("x") as writer:
        for _ in range(20):
            writer.write(bytes(1 << 20))
        writer.commit()
    assert sorted(proxy.methods) == ["HEAD", "POST", "POST", "PUT", "PUT", "PUT"]
    assert store.head("x").size == 20 << 20


def test_an_aborted_upload_is_told_to_the_server(store: ObjectStore, proxy: Proxy) -> None:
    with store.open_writer("x") as writer:
        writer.write(bytes(20 << 20))
    [abort] = [request for request in proxy.requests if request.method == "DELETE"]
    assert "uploadId" in abort.path


def test_a_prefix_within_a_name_starts_the_listing_there(store: ObjectStore, proxy: Proxy) -> None:
    for name in ("a/10", "a/20", "a/21", "a/30"):
        store.put(name, b"")
    proxy.requests.clear()
    assert [info.path for info in store.list("a/2")] == ["a/20", "a/21"]
    assert "start-after" in proxy.requests[0].path


def test_a_listing_goes_on_over_many_pages(store: ObjectStore, other: ObjectStore, proxy: Proxy) -> None:
    paths = [f"p/{number:04}" for number in range(1203)]
    for path in paths:
        other.put(path, b"")
    assert [info.path for info in store.list("p/", after="p/0001")] == paths[2:]
    assert proxy.methods == ["GET", "GET"]


def test_a_put_whose_answer_was_lost_is_found_to_have_landed(store: ObjectStore, proxy: Proxy) -> None:
    proxy.tricks = [Trick("PUT", "lose answer")]
    store.put("x", b"mine")
    assert store.get("x") == b"mine"
    assert proxy.methods[:2] == ["PUT", "GET"]


def test_a_put_that_was_lost_itself_is_sent_again(store: ObjectStore, proxy: Proxy) -> None:
    proxy.tricks = [Trick("PUT", "lose request")]
    store.put("x", b"mine")
    assert store.get("x") == b"mine"
    assert proxy.methods[:3] == ["PUT", "GET", "PUT"]


def test_a_put_that_failed_in_the_server_after_it_landed_is_found(store: ObjectStore, proxy: Proxy) -> None:
    proxy.tricks = [Trick("PUT", "answer", 500, forwards=True)]
    store.put("x", b"mine")
    assert store.get("x") == b"mine"


def test_a_put_whose_refusal_was_lost_is_still_refused(
    store: ObjectStore, other: ObjectStore, proxy: Proxy
) -> None:
    other.put("x", b"theirs")
    proxy.tricks = [Trick("PUT", "lose answer")]
    with pytest.raises(PathExistsError):
        store.put("x", b"mine")
    assert store.get("x") == b"theirs"


def test_a_put_nothing_is_known_about_says_so(store: ObjectStore, proxy: Proxy) -> None:
    proxy.tricks = [Trick("PUT", "lose answer"), *[Trick("GET", "lose answer")] * 10]
    with pytest.raises(OutcomeUnknownError, match="'x'"):
        store.put("x", b"mine")


@pytest.mark.parametrize("expected", [None, b"0"])
def test_a_swap_whose_answer_was_lost_is_found_to_have_won(
    store: ObjectStore, other: ObjectStore, proxy: Proxy, expected: bytes | None
) -> None:
    if expected is not None:
        other.put("latest", expected)
    proxy.tricks = [Trick("PUT", "lose answer")]
    assert store.compare_and_swap("latest", expected, b"1")
    proxy.requests.clear()
    assert store.compare_and_swap("latest", b"1", b"2")
    assert proxy.methods == ["PUT"]


@pytest.mark.parametrize("expected", [None, b"0"])
def test_a_swap_that_was_lost_itself_is_sent_again(
    store: ObjectStore, other: ObjectStore, proxy: Proxy, expected: bytes | None
) -> None:
    if expected is not None:
        other.put("latest", expected)
    proxy.tricks = [Trick("PUT", "lose request")]
    assert store.compare_and_swap("latest", expected, b"1")
    assert other.get("latest") == b"1"


@pytest.mark.parametrize("what", ["lose answer", "lose request"])
def test_a_lost_swap_with_something_else_there_by_now_is_unknown(
    store: ObjectStore, other: ObjectStore, proxy: Proxy, what: Any
) -> None:
    other.put("latest", b"0")

    def build_on_what_is_there() -> None:
        current = other.get("latest")
        assert other.compare_and_swap("latest", current, b"theirs")

    proxy.tricks = [Trick("PUT", what, meanwhile=build_on_what_is_there)]
    with pytest.raises(OutcomeUnknownError, match="has other content by now"):
        store.compare_and_swap("latest", b"0", b"mine")
    assert other.get("latest") == b"theirs"


def test_a_swap_nothing_is_known_about_says_so(store: ObjectStore, other: ObjectStore, proxy: Proxy) -> None:
    other.put("latest", b"0")
    store.get("latest")
    proxy.tricks = [Trick("PUT", "lose answer"), *[Trick("GET", "lose answer")] * 10]
    with pytest.raises(OutcomeUnknownError, match="reading back failed"):
        store.compare_and_swap("latest", b"0", b"1")


def test_a_swap_that_is_forbidden_after_its_answer_was_lost_is_unknown(
    store: ObjectStore, other: ObjectStore, proxy: Proxy
) -> None:
    other.put("latest", b"0")
    proxy.tricks = [Trick("PUT", "lose request"), Trick("PUT", "answer", 403)]
    with pytest.raises(OutcomeUnknownError, match="a second attempt failed"):
        store.compare_and_swap("latest", b"0", b"1")


def test_a_large_upload_whose_completion_was_lost_is_found(store: ObjectStore, proxy: Proxy) -> None:
    with store.open_writer("x") as writer:
        writer.write(bytes(9 << 20))
        proxy.tricks = [Trick("POST", "lose answer")]
        writer.commit()
    assert store.head("x").size == 9 << 20


CONFLICT = b"<Error><Code>ConditionalRequestConflict</Code></Error>"


def test_a_put_that_met_another_request_is_tried_again(store: ObjectStore, proxy: Proxy) -> None:
    proxy.tricks = [Trick("PUT", "answer", 409, CONFLICT)] * 2
    store.put("x", b"mine")
    assert store.get("x") == b"mine"


def test_a_put_that_met_another_request_and_lost_is_refused(
    store: ObjectStore, other: ObjectStore, proxy: Proxy
) -> None:
    other.put("x", b"theirs")
    proxy.tricks = [Trick("PUT", "answer", 409, CONFLICT)]
    with pytest.raises(PathExistsError):
        store.put("x", b"theirs")


@pytest.mark.parametrize("expected", [None, b"0"])
def test_a_swap_that_met_another_request_is_tried_again(
    store: ObjectStore, other: ObjectStore, proxy: Proxy, expected: bytes | None
) -> None:
    if expected is not None:
        other.put("latest", expected)
    proxy.tricks = [Trick("PUT", "answer", 409, CONFLICT)] * 2
    assert store.compare_and_swap("latest", expected, b"1")
    assert other.get("latest") == b"1"


def test_a_swap_that_met_another_request_and_lost_is_lost(
    store: ObjectStore, other: ObjectStore, proxy: Proxy
) -> None:
    other.put("latest", b"0")
    store.get("latest")
    other.compare_and_swap("latest", b"0", b"theirs")
    proxy.tricks = [Trick("PUT", "answer", 409, CONFLICT)]
    assert not store.compare_and_swap("latest", b"0", b"mine")


def test_a_refused_credential_is_no_permission(store: ObjectStore, proxy: Proxy) -> None:
    for method in ("PUT", "GET", "HEAD"):
        proxy.tricks.append(Trick(method, "answer", 403, b"<Error><Code>AccessDenied</Code></Error>"))
    with pytest.raises(PermissionDeniedError, match="'x'"):
        store.put("x", b"1")
    with pytest.raises(PermissionDeniedError, match="'x'"):
        store.get("x")
    with pytest.raises(PermissionDeniedError, match="'x'"):
        store.exists("x")


def test_a_bucket_that_is_not_there_is_named_as_the_reason(s3_server: S3Server) -> None:
    store = open_object_store("s3://no-such-bucket", **s3_server.options)
    with pytest.raises(StoreError, match="bucket or container is not there"):
        store.put("x", b"1")
    with pytest.raises(StoreError, match="bucket or container is not there"):
        list(store.list())
    with pytest.raises(StoreError, match="bucket or container is not there: check its name"):
        store.get("x")


def test_a_server_that_is_not_there_is_a_store_error_and_nothing_unknown() -> None:
    store = open_object_store(
        "s3://lake",
        endpoint="http://127.0.0.1:9",
        region="us-east-1",
        access_key_id="a",
        secret_access_key="b",
        client_options={"allow_http": True},
        retry_config={"max_retries": 0},
    )
    with pytest.raises(StoreError) as caught:
        store.put("x", b"1")
    assert not isinstance(caught.value, OutcomeUnknownError)
    assert "Debug source" not in str(caught.value)


def test_a_path_obstore_cannot_hold_is_an_invalid_path(store: ObjectStore) -> None:
    from lode.errors import InvalidPathError

    with pytest.raises(InvalidPathError):
        store.put("tab\there", b"1")


def test_a_store_sent_to_another_process_works_there(store: ObjectStore) -> None:
    store.put("x", b"1")
    again = pickle.loads(pickle.dumps(store))
    assert again.get("x") == b"1"
    assert again.url == store.url


def test_a_healthy_server_passes_the_doctor(other: ObjectStore) -> None:
    diagnosis = diagnose(other)
    assert diagnosis.healthy, str(diagnosis)
    assert list(other.list()) == []
