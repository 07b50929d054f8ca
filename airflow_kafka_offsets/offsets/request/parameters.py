"""The parameters of a request, as people write them: one list for operator, task group, command line and scripts.

Nothing is checked here: a template may not be rendered yet.
:func:`~airflow_kafka_offsets.offsets.request.parse.parse_request` makes a valid request of them, or
one error with every problem.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from typing import Any, TypeVar

from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.offsets.request.bounds import Offsets, Times
from airflow_kafka_offsets.offsets.request.scope import ScopeParameters

T = TypeVar("T", bound=ScopeParameters)


@dataclass(frozen=True, slots=True)
class RequestParameters(ScopeParameters):
    """What a run reads, from where to where, and what it does where there is a choice.

    ``ResolveStartupOffsetsOperator`` documents each. The last four are a person's words for one run: they come from the
    run's conf or the command line, never from a DAG, apart from ``restart``.
    """

    startup_mode: str = "group-offsets"
    startup_timestamp: Times | None = None
    specific_offsets: Offsets | None = None
    auto_offset_reset: str | None = None
    bounded_mode: str = "latest-offset"
    bounded_timestamp: Times | None = None
    bounded_offsets: Offsets | None = None
    partition_width: str | timedelta | None = None
    require_complete_window: bool = False
    idle_timeout: timedelta | float | str | None = None
    max_records: int | None = None
    max_records_per_partition: int | None = None
    splits: int = 1
    split_by: str = "size"
    output_name: str | None = None
    commit_mode: str = "on-success"
    filter_restored_partitions: bool = True
    on_data_loss: str = "fail"
    on_recreated: str = "fail"
    on_cluster_changed: str = "fail"
    on_group_moved: str = "fail"
    on_topic_vanished: str = "fail"
    on_another_airflow: str = "fail"
    on_output_changed: str = "fail"
    restart: str | None = None
    re_plan: bool = False
    redo: bool = False
    skip: Any = None


CONF_WORDS = frozenset(
    {"re_plan", "redo", "restart", "skip", "auto_offset_reset", "isolation_level", "commit_mode"}
    | {field.name for field in fields(RequestParameters) if field.name.startswith("on_")}
)
"""What ``{"kafka_offsets": {…}}`` in a run's conf may hold."""


def refuse_misplaced(conf: Mapping[str, Any]) -> None:
    """:raises InvalidRequest: a run's conf has a policy at its top level, where it would be without effect."""
    misplaced = {name: conf[name] for name in sorted(conf.keys() & CONF_WORDS) if name.startswith("on_")}
    if misplaced:
        raise InvalidRequest(
            (
                f'The run\'s conf has {", ".join(misplaced)} at its top level. Put it under "kafka_offsets": '
                f"{json.dumps({'kafka_offsets': misplaced}, default=str)}",
            )
        )


def names_of(kind: type[ScopeParameters]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


def parameters_of(kind: type[T], asker: object) -> T:
    """The parameters that ``asker`` has as attributes of the same names."""
    return kind(**{name: getattr(asker, name) for name in names_of(kind) if hasattr(asker, name)})


def with_conf(parameters: RequestParameters, conf: Any) -> RequestParameters:
    """``parameters`` with what the run's conf says for this run alone.

    :param conf: the value of ``kafka_offsets`` in the conf; ``None`` where there is none.
    :raises InvalidRequest: it is no object, or has a key that is not known.
    """
    if conf is None:
        return parameters
    if not isinstance(conf, Mapping):
        raise InvalidRequest(
            (f'The run\'s conf has "kafka_offsets": {conf!r}; expected an object, such as {{"redo": true}}.',)
        )
    unknown = sorted(map(str, conf.keys() - CONF_WORDS))
    if unknown:
        raise InvalidRequest(
            (
                f'The run\'s conf has unknown keys under "kafka_offsets": {", ".join(unknown)}. It may have '
                f"{', '.join(sorted(CONF_WORDS))}.",
            )
        )
    return replace(parameters, **conf)
