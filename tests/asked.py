"""Parameters as a test names them: a situation's answer may stand beside the parameters, ``data_loss="advance"``."""

from __future__ import annotations

from typing import Any

from airflow_kafka_offsets.request.parameters import RequestParameters
from airflow_kafka_offsets.request.policies import SITUATIONS


def request_parameters(**given: Any) -> RequestParameters:
    """``given``, the answers among it put into ``policies``."""
    return RequestParameters(**with_policies(given))


def with_policies(given: dict[str, Any]) -> dict[str, Any]:
    answers = {name: given[name] for name in SITUATIONS if name in given}
    others = {name: value for name, value in given.items() if name not in answers}
    return others | ({"policies": answers} if answers else {})
