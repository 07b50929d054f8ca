"""Parameters + connection → a request. What the parameters leave out, the connection's consumer settings say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from airflow_kafka_offsets.broker.config import client_defaults, refuse_name
from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.offsets.request.parameters import RequestParameters
from airflow_kafka_offsets.offsets.request.parse import Occasion, PlanRequest, parse_request
from airflow_kafka_offsets.offsets.request.scope import Scope, ScopeParameters, parse_scope

T = TypeVar("T", bound=ScopeParameters)


def request_for(client_config: Mapping[str, Any], asked: RequestParameters, occasion: Occasion) -> PlanRequest:
    """:raises InvalidRequest: with every problem."""
    given = asked
    if asked.auto_offset_reset is None:
        asked = replace(asked, auto_offset_reset=client_defaults(client_config).auto_offset_reset)
    try:
        request = parse_request(with_connection(client_config, asked), occasion)
    except InvalidRequest as error:
        raise _named_as_in_connection(error, given) from None
    request = replace(request, reset_by_client=given.auto_offset_reset is None)
    if request.scope.group_id is not None:  # before Spark, and not only when it is written
        refuse_name(request.scope.group_id)
    return request


def scope_for(client_config: Mapping[str, Any], asked: ScopeParameters) -> Scope:
    """:raises InvalidRequest: with every problem."""
    try:
        return parse_scope(with_connection(client_config, asked))
    except InvalidRequest as error:
        raise _named_as_in_connection(error, asked) from None


def with_connection(client_config: Mapping[str, Any], asked: T) -> T:
    defaults = client_defaults(client_config)
    return replace(
        asked,
        group_id=defaults.group_id if asked.group_id is None else asked.group_id,
        isolation_level=asked.isolation_level or defaults.isolation_level,
    )


def _named_as_in_connection(error: InvalidRequest, asked: ScopeParameters) -> InvalidRequest:
    """The error; where no parameter was given, it names the connection's setting instead."""
    given = asked.auto_offset_reset if isinstance(asked, RequestParameters) else None
    of_connection = {
        "group_id": asked.group_id is None,
        "isolation_level": not asked.isolation_level,
        "auto_offset_reset": given is None,
    }
    ours = {
        f"{name} is ": f"{name.replace('_', '.')} in the Kafka connection is "
        for name, is_its_own in of_connection.items()
        if is_its_own
    }
    return InvalidRequest(
        [next((new + p[len(old) :] for old, new in ours.items() if p.startswith(old)), p) for p in error.problems]
    )
