"""A request as a test writes it: what it leaves out is valid."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.offsets import Timestamp
from airflow_kafka_offsets.request import Request, RunContext, parse_request

NOW = 1_795_168_800_000  # 2026-11-20T10:00Z
HOUR = 3_600_000
INTERVAL = (NOW - 2 * HOUR, NOW - HOUR)
WINDOW = {"start": Timestamp(), "end": Timestamp(), "group_id": None}


def parse(
    interval: tuple[int, int] | None = None, conf: Any = None, connection: dict[str, Any] | None = None, **given: Any
) -> Request:
    parameters = {"topics": ["orders"], "group_id": "g", "pipeline_id": "p", **given}
    return parse_request(parameters, RunContext(NOW, interval, {} if conf is None else conf), connection or {})


def problems(**given: Any) -> list[str]:
    with pytest.raises(InvalidRequest) as refused:
        parse(**given)
    return list(refused.value.problems)
