"""Parameters + connection → a request. What the parameters leave out, the connection's consumer settings say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from airflow_kafka_offsets.broker.config import client_defaults, refuse_name
from airflow_kafka_offsets.offsets.request.parameters import RequestParameters
from airflow_kafka_offsets.offsets.request.parse import Occasion, PlanRequest, parse_request
from airflow_kafka_offsets.offsets.request.scope import Scope, ScopeParameters, parse_scope

T = TypeVar("T", bound=ScopeParameters)


def request_for(client_config: Mapping[str, Any], asked: RequestParameters, occasion: Occasion) -> PlanRequest:
    """:raises InvalidRequest: with every problem."""
    if asked.auto_offset_reset is None:
        asked = replace(asked, auto_offset_reset=client_defaults(client_config).auto_offset_reset)
    request = parse_request(with_connection(client_config, asked), occasion)
    if request.scope.group_id is not None:  # before Spark, and not only when it is written
        refuse_name(request.scope.group_id, fenced=request.mirrors and request.policies.fencing == "transaction")
    return request


def scope_for(client_config: Mapping[str, Any], asked: ScopeParameters) -> Scope:
    """:raises InvalidRequest: with every problem."""
    return parse_scope(with_connection(client_config, asked))


def with_connection(client_config: Mapping[str, Any], asked: T) -> T:
    defaults = client_defaults(client_config)
    return replace(
        asked,
        group_id=defaults.group_id if asked.group_id is None else asked.group_id,
        isolation_level=asked.isolation_level or defaults.isolation_level,
    )
