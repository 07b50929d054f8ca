"""Resolve, Spark and commit on a secured Kafka, by the page's connections and DAG; and what is said where it fails."""

from __future__ import annotations

import pytest

from testbed.secured_broker import LISTENERS
from tests.secured.conftest import PASSWORDS, Pipeline

SOON_S = 15


@pytest.mark.parametrize("listener", LISTENERS)
def test_a_batch_is_read_and_committed_with_the_least_rights_of_each_principal(
    pipeline: Pipeline, listener: str
) -> None:
    pipeline.as_principals(listener)
    pipeline.produce(100)
    result = pipeline.run()
    said = pipeline.said()
    assert result.state == "success", said
    assert pipeline.is_exact
    assert pipeline.committed == {0: 50, 1: 50}
    assert [secret for secret in PASSWORDS.values() if secret in said] == []
