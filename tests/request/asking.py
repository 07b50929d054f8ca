"""A request for topic ``orders`` and group ``g`` from parameters as people write them, at ``NOW`` and by hand."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.request.parse_request import PlanRequest, RunContext, parse_request
from tests.asked import request_parameters
from tests.builders import NOW

HOUR = 3_600_000
INTERVAL = (NOW - 2 * HOUR, NOW - HOUR)
WINDOW = {"startup_mode": "timestamp", "bounded_mode": "timestamp"}


def parse(**given: Any) -> PlanRequest:
    """``given`` are parameters, or what an :class:`RunContext` has."""
    run_context = {field.name: given.pop(field.name) for field in fields(RunContext) if field.name in given}
    asked = request_parameters(**{"topics": "orders", "group_id": "g", **given})
    return parse_request(asked, RunContext(**{"now_ms": NOW, **run_context}))


def problems(**given: Any) -> list[str]:
    with pytest.raises(InvalidRequest) as refused:
        parse(**given)
    return list(refused.value.problems)
