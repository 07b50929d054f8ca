"""A plan that a person gives to resolve: its partitions, starts and ends, and which log they are offsets of.

Of the plan's JSON only that is read: a plan that was shown, looked at, and handed on reads the records that it names.
Who reads them, into what, and by how many splits is the request's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from airflow_kafka_offsets.errors import named
from airflow_kafka_offsets.json_columns import from_columns, members, read_as, require_version, text
from airflow_kafka_offsets.kafka_values import (
    ClusterDescription,
    OffsetRange,
    TopicPartition,
    by_topic,
    topics_made_anew,
    values_by_topic,
)
from airflow_kafka_offsets.request.modes import SpecificOffsets
from airflow_kafka_offsets.request.offset_maps import mapping
from airflow_kafka_offsets.request.parameters import RequestParameters
from airflow_kafka_offsets.request.problems import Problems, WrongTogether
from airflow_kafka_offsets.request.subscription import SUBSCRIPTION, Scope, take_scope

_EXAMPLE = "the JSON of kafka-offsets plan --output json"


@dataclass(frozen=True, slots=True)
class LogOfPlan:
    """Of which log a given plan's offsets are.

    :ivar topic_ids: ``None`` where the cluster had no ids.
    """

    cluster_id: str
    topic_ids: Mapping[str, str | None]

    def differences(self, description: ClusterDescription) -> list[str]:
        """What is another log by now, as sentences."""
        if description.cluster_id != self.cluster_id:
            here = description.cluster_id
            return [f"{named('from_plan')} is of cluster {self.cluster_id}, and this is {here}: make a plan here."]
        anew = topics_made_anew(self.topic_ids, description.topic_ids)
        return [
            f"{named('from_plan')} was made before topic {topic} was deleted and created again: make a new plan."
            for topic in sorted(anew)
        ]


_BOUNDS = (
    *("startup_mode", "startup_timestamp", "specific_offsets"),
    *("bounded_mode", "bounded_timestamp", "bounded_offsets"),
)
_DEFAULTS = RequestParameters()
_Offsets = Mapping[TopicPartition, int]


def take_plan(problems: Problems, asked: RequestParameters) -> tuple[RequestParameters, LogOfPlan | None]:
    """``asked`` with the partitions, the starts and the ends of its ``from_plan``, where it has one.

    Each problem goes to ``problems``.
    """
    if asked.from_plan is None:
        return asked, None
    has_topics = any(getattr(asked, name) is not None for name in SUBSCRIPTION)
    scope = take_scope(problems, asked) if has_topics else None
    planned = problems.take("from_plan", lambda: _planned(asked, scope), None)
    starts, ends, log = planned or (_STAND_IN, _STAND_IN, None)
    return replace(
        asked,
        topics=None,
        topic_pattern=None,
        partitions=by_topic(starts),
        startup_mode=SpecificOffsets.name,
        startup_timestamp=None,
        specific_offsets=values_by_topic(starts),
        bounded_mode=SpecificOffsets.name,
        bounded_timestamp=None,
        bounded_offsets=values_by_topic(ends),
    ), log


_STAND_IN = {TopicPartition("any", 0): 0}  # for a plan that is refused anyway


def _planned(asked: RequestParameters, scope: Scope | None) -> tuple[_Offsets, _Offsets, LogOfPlan]:
    """The starts and the ends.

    :raises ValueError: it is no plan, or another parameter says something else (A7).
    """
    given: Any = asked.from_plan
    data = mapping(given, _EXAMPLE)
    try:
        require_version(data, 1, "plan")
        rows = dict(from_columns(data["topics"], members(OffsetRange)))
        ids = {topic: columns["topic_id"] for topic, columns in data["topics"].items()}
        log, level = read_as(LogOfPlan, {**data, "topic_ids": ids}), text(data["isolation_level"])
    except (KeyError, ValueError) as error:
        raise ValueError(f"is no plan ({error}); expected {_EXAMPLE}") from None
    starts = {tp: row["start_offset"] for tp, row in rows.items()}
    ends = {tp: row["end_offset"] for tp, row in rows.items()}
    if not starts:
        raise ValueError("is a plan without a partition")
    beside = [name for name in _BOUNDS if getattr(asked, name) != getattr(_DEFAULTS, name)]
    if beside:
        raise WrongTogether(f"says where to start and to end, so leave out {', '.join(map(named, beside))}", *beside)
    strange = [tp for tp in starts if scope is not None and not scope.subscription.has(tp)]
    if strange:
        raise WrongTogether(f"has {strange[0]}, which is not subscribed to", *SUBSCRIPTION)
    if level != (asked.isolation_level or "read_uncommitted"):
        raise WrongTogether(f"was made under isolation_level={level!r}: give the same here", "isolation_level")
    return starts, ends, log
