"""One store, many spellings of its URL."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

import lode
from lode.store import LocalStore, ObjectStore

AZURE = "az://files/lake/a"


@pytest.mark.parametrize(
    ("url", "canonical"),
    [
        ("s3://bucket/lake/a", "s3://bucket/lake/a"),
        ("s3a://bucket/lake/a", "s3://bucket/lake/a"),
        ("s3n://bucket", "s3://bucket"),
        ("S3A://bucket/lake/", "s3://bucket/lake"),
        ("gcs://bucket/lake/a", "gs://bucket/lake/a"),
        ("abfss://files@shop.dfs.core.windows.net/lake/a", AZURE),
        ("abfs://files@shop.dfs.core.windows.net/lake/a", AZURE),
        ("wasbs://files@shop.blob.core.windows.net/lake/a", AZURE),
        ("wasb://files@shop.blob.core.windows.net/lake/a", AZURE),
        ("az://files@shop.blob.core.windows.net/lake/a", AZURE),
    ],
)
def test_every_spelling_opens_the_store_under_one_url(url: str, canonical: str) -> None:
    store = lode.open_store(url)
    assert isinstance(store, ObjectStore)
    assert store.url == canonical
    again = pickle.loads(pickle.dumps(store))
    assert (again.url, again.client.config) == (canonical, store.client.config)
    if canonical == AZURE:
        assert store.client.config["account_name"] == "shop"


@pytest.mark.parametrize("url", ["az://files/lake/a", "azure://files/lake/a", "abfss://files/lake/a"])
def test_the_account_may_be_an_option(url: str) -> None:
    assert lode.open_store(url, account_name="shop").url == AZURE


def test_another_cloud_of_azure_has_its_own_endpoint() -> None:
    store = lode.open_store("abfss://files@shop.dfs.core.chinacloudapi.cn/lake")
    assert isinstance(store, ObjectStore)
    assert store.client.config["endpoint"] == "https://shop.blob.core.chinacloudapi.cn"


def test_a_file_url_may_have_one_slash(tmp_path: Path) -> None:
    store = lode.open_store(f"file:{tmp_path}")
    assert isinstance(store, LocalStore)
    assert store.root == tmp_path


@pytest.mark.parametrize(
    ("url", "said"),
    [
        (
            "https://data.s3.eu-west-1.amazonaws.com/lake",
            "write s3://data/lake with the option region=eu",
        ),
        (
            "https://s3.eu-west-1.amazonaws.com/data/lake",
            "write s3://data/lake with the option region=eu",
        ),
        ("https://data.s3.amazonaws.com/", "write s3://data"),
        ("https://storage.googleapis.com/data/lake", "write gs://data/lake"),
        (
            "https://shop.blob.core.windows.net/files/lake?sig=secret",
            "write az://files/lake with the option",
        ),
        (
            "http://127.0.0.1:9000/data/lake",
            "write s3://data/lake with the option endpoint=http",
        ),
        ("adl://lake.azuredatalakestore.net/a", "retired: use abfss://"),
        (
            "abfss://files@shop/lake",
            "names no account: write abfss://files@account.dfs.core.windows.net/lake",
        ),
        ("s3://user@bucket/lake", "names no bucket: write s3://bucket/prefix"),
        ("s3a://", "names no bucket"),
        ("abffs://files@shop.dfs.core.windows.net/lake", "did you mean 'abfs' or 'abfss'?"),
        ("s3:/bucket/lake", "write 's3://bucket/lake', or put ./ in front for a directory"),
        ("s3a:bucket/lake", "write 's3a://bucket/lake', or"),
        ("https:/user:secret@example.org/lake", "write 'https://…@example.org/lake', or"),
        ("file:lake", "write 'file:///absolute/path', or"),
        ("ftp://example.org/x", "known are memory://, file://, s3://, gs://, az://"),
    ],
)
def test_what_cannot_be_opened_names_the_right_spelling(url: str, said: str) -> None:
    with pytest.raises(lode.InvalidOptionError) as caught:
        lode.open_store(url)
    assert said in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_directory_may_have_a_name_like_a_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for target in ("./s3:/bucket", Path("s3:/bucket"), "run 1:/x"):
        assert isinstance(lode.open_store(target), LocalStore)


def test_an_account_in_the_url_and_another_in_the_options_is_refused() -> None:
    with pytest.raises(lode.InvalidOptionError, match=r"names the account 'shop' .* is 'other': give one"):
        lode.open_store("abfss://files@shop.dfs.core.windows.net/lake", account_name="other")


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("s3a://AKIA:SECRET@bucket/lake", {}),
        ("gs://x:SECRET@bucket", {}),
        ("https://user:SECRET@host/bucket", {}),
        ("https://host/bucket?sig=SECRET", {}),
        ("file://user:SECRET@host/lake", {}),
        ("adl://u:SECRET@store/lake", {}),
        ("ftp://u:SECRET@host/lake", {}),
        ("s3://bucket/lake?secret_access_key=SECRET", {}),
        ("abfss://files@shop.dfs.core.windows.net/lake?sv=1&sig=SECRET", {}),
        ("s3://bucket", {"endpoint": "http://user:SECRET@host"}),
        ("s3://bucket", {"endpoint": "user:SECRET@host"}),
    ],
)
def test_a_secret_in_a_url_is_refused_and_not_repeated(url: str, options: dict[str, str]) -> None:
    with pytest.raises(lode.InvalidOptionError) as raised:
        lode.open_store(url, **options)
    assert "SECRET" not in str(raised.value)


@pytest.mark.parametrize(
    "endpoint",
    ["http://127.0.0.1:99999", "http://", "http://[::1", "https:// x", "http://h:9/a b", "http://h:x", "h:9"],
)
def test_an_endpoint_that_is_no_url_is_refused_before_the_first_request(
    endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(lode.InvalidOptionError, match="no URL: write https://host"):
        lode.open_store("s3://bucket", endpoint=endpoint)
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    with pytest.raises(lode.InvalidOptionError, match="AWS_ENDPOINT_URL is"):
        lode.open_store("s3://bucket")


@pytest.mark.parametrize("url", ["https://[x/", "file://[x/p", "file:///tmp/%00"])
def test_a_url_that_cannot_be_parsed_is_one_sentence(url: str) -> None:
    with pytest.raises(lode.InvalidOptionError):
        lode.open_store(url)
