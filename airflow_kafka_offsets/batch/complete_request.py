"""Parameters + connection → a request. What the parameters leave out, the connection's consumer settings say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from airflow_kafka_offsets.broker.config import refuse_name
from airflow_kafka_offsets.errors import CONNECTION, named, names
from airflow_kafka_offsets.request.parameters import RequestParameters, ScopeParameters
from airflow_kafka_offsets.request.parse_request import PlanRequest, RunContext, parse_request
from airflow_kafka_offsets.request.subscription import Scope, parse_scope

T = TypeVar("T", bound=ScopeParameters)


_SETTINGS = {"group_id": "group.id", "isolation_level": "isolation.level", "auto_offset_reset": "auto.offset.reset"}


def request_for(client_config: Mapping[str, Any], asked: RequestParameters, run_context: RunContext) -> PlanRequest:
    """:raises InvalidRequest: with every problem."""
    with names(_by_connection(asked)):
        request = parse_request(with_connection(client_config, asked), run_context)
    if request.scope.group_id is not None:  # before Spark, and not only when it is written
        refuse_name(request.scope.group_id)
    return replace(request, reset_by_client=asked.auto_offset_reset is None)


def scope_for(client_config: Mapping[str, Any], asked: ScopeParameters) -> Scope:
    """:raises InvalidRequest: with every problem."""
    with names(_by_connection(asked)):
        return parse_scope(with_connection(client_config, asked))


def with_connection(client_config: Mapping[str, Any], asked: T) -> T:
    return replace(asked, **{name: client_config.get(_SETTINGS[name]) for name in _left_out(asked)})


def _left_out(asked: ScopeParameters) -> list[str]:
    """The parameters that the connection decides."""
    return [name for name in _SETTINGS if getattr(asked, name, "none") is None]


def _by_connection(asked: ScopeParameters) -> dict[str, str]:
    """What problems call these: the connection's settings."""
    return {name: f"{_SETTINGS[name]} in {named(CONNECTION)}" for name in _left_out(asked)}
