"""Options of a client are found wherever people put them."""

from __future__ import annotations

import pytest

import lode
from lode.store import ObjectStore
from lode.store.object_options import sorted_options


@pytest.mark.parametrize("name", ["allow_http", "aws_allow_http", "AWS_ALLOW_HTTP"])
def test_an_option_of_the_client_may_stand_beside_those_of_the_store(name: str) -> None:
    store = lode.open_store("s3://bucket/lake", region="eu-central-1", **{name: True})
    assert isinstance(store, ObjectStore)
    assert store.client.config == {"bucket": "bucket", "region": "eu-central-1"}
    assert store.client.client_options == {"allow_http": "true"}


def test_what_was_said_in_the_client_options_stays() -> None:
    given = {"timeout": "5s", "client_options": {"timeout": "9s", "allow_http": True}, "region": "x"}
    assert sorted_options(given) == {
        "region": "x",
        "client_options": {"timeout": "9s", "allow_http": True},
    }


def test_options_without_one_of_the_client_are_left_alone() -> None:
    assert sorted_options({"region": "x"}) == {"region": "x"}
