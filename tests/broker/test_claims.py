"""What is said of a token that was refused, by what it says of itself."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

import pytest

from airflow_kafka_offsets.refusal_reasons import claims_of, refusal_of_token

REFUSED = 'SASL authentication error: {"status":"invalid_token"}'


def token(**claims: Any) -> str:
    return f"e30.{base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b'=').decode()}.c2ln"


def test_a_token_that_has_expired_is_the_cause_though_nobody_says_so() -> None:
    """A broker that does not look at the time closes the connection at once, and Java's client times out."""
    error = refusal_of_token("Not in", "Timed out", token(sub="etl", exp=time.time() - 60))
    assert error is not None
    assert error.reason.startswith(
        "the token is not accepted (Timed out); it has subject 'etl', it has expired 60 s ago"
    )


def test_what_else_fails_is_no_refused_token() -> None:
    assert refusal_of_token("Not in", "Timed out", token(sub="etl", exp=time.time() + 60)) is None
    assert refusal_of_token("Not in", "Timed out", None) is None


@pytest.mark.parametrize("opaque", ["", "an-opaque-token", "a.b.c", token()[:-6], "e30.W10.c2ln"])
def test_an_opaque_token_has_no_claims(opaque: str) -> None:
    assert claims_of(opaque) == {}
    error = refusal_of_token("Not in", REFUSED, opaque)
    assert error is not None
    assert error.reason == f"the token is not accepted ({REFUSED})"


def test_claims_that_are_none_are_said_as_they_are() -> None:
    error = refusal_of_token("Not in", REFUSED, token(aud=["x" * 1000], exp="tomorrow", nbf=None))
    assert error is not None
    assert "audience ['xxx" in error.reason
    assert len(error.reason) < 400
