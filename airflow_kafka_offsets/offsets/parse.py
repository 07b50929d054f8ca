"""What people write → a :class:`~airflow_kafka_offsets.offsets.spec.PlanRequest`, or every problem at once.

Text, templates, command lines and connections give strings and JSON. All of it is read before any cluster is asked, and
one :class:`~airflow_kafka_offsets.errors.InvalidRequest` carries every problem, each with its remedy.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, get_args

from airflow_kafka_offsets.errors import InvalidRequest
from airflow_kafka_offsets.offsets.bounds import BoundsReader, Partition, Times, ends_before_start
from airflow_kafka_offsets.offsets.complete import DEFAULT_IDLE_TIMEOUT_MS, parse_wait_ms
from airflow_kafka_offsets.offsets.model import IsolationLevel, TopicPartition
from airflow_kafka_offsets.offsets.offset_maps import mapping, natural, parse_partition_offsets
from airflow_kafka_offsets.offsets.problems import Problems
from airflow_kafka_offsets.offsets.spec import (
    EarliestOffset,
    GroupOffsets,
    OnDataLoss,
    OnGroupMoved,
    OnRecreated,
    OnSuperseded,
    OnTopicVanished,
    PartitionSet,
    PlanRequest,
    ResetStrategy,
    RunKey,
    SplitBy,
    Subscription,
    TopicList,
    TopicPattern,
    UntilGroupOffsets,
    UntilLatest,
    UntilTimestamp,
)

_RESET_SYNONYMS: Mapping[str, ResetStrategy] = {
    "earliest": "earliest",
    "smallest": "earliest",
    "beginning": "earliest",
    "latest": "latest",
    "largest": "latest",
    "end": "latest",
    "none": "none",
    "error": "none",
}


def parse_request(
    *,
    now_ms: int,
    topics: Sequence[str] | str | None = None,
    topic_pattern: str | None = None,
    partitions: Mapping[str, Sequence[int]] | str | None = None,
    include_internal_topics: bool = False,
    group_id: str | None = None,
    startup_mode: str = GroupOffsets.name,
    startup_timestamp: Times | None = None,
    specific_offsets: Mapping[str, Mapping[str, int]] | str | None = None,
    auto_offset_reset: str | None = None,
    bounded_mode: str = UntilLatest.name,
    bounded_timestamp: Times | None = None,
    partition_width: str | timedelta | None = None,
    bounded_offsets: Mapping[str, Mapping[str, int]] | str | None = None,
    isolation_level: str | None = None,
    on_data_loss: str = "fail",
    on_recreated: str = "fail",
    on_group_moved: str = "fail",
    on_topic_vanished: str = "fail",
    on_superseded: str = "fail",
    re_plan: bool = False,
    restart: str | None = None,
    filter_restored_partitions: bool = True,
    max_records: int | None = None,
    max_records_per_partition: int | None = None,
    splits: int = 1,
    split_by: str = "size",
    checkpoint_id: str | None = None,
    require_complete_window: bool = False,
    idle_timeout: timedelta | float | str | None = None,
    interval: tuple[int, int] | None = None,
    partition: Partition | None = None,
    run: RunKey | None = None,
    run_type: str = "manual",
) -> PlanRequest:
    """The request that these parameters make; DESIGN.md's table of operator parameters, one to one.

    :param now_ms: the clock, for "a start timestamp cannot be in the future" (B2); relative times count back from it.
    :param interval: the run's data interval in epoch milliseconds, ``[start, end)``; fills in missing timestamps.
    :param partition: what a partitioned run is for; fills them in where there is no interval that has a length.
    :param run_type: Airflow's: ``manual``, ``scheduled``, ``backfill``, ``asset_triggered`` …
    :raises InvalidRequest: with every problem found, not just the first.
    """
    problems = Problems()
    warnings: list[str] = []
    subscription = _subscription(problems, topics, topic_pattern, partitions, include_internal_topics)
    names = subscription.topics if isinstance(subscription, TopicList) else ()
    read = partial(parse_partition_offsets, topics=names, group_id=group_id)
    bounds = BoundsReader(problems, warnings, subscription, read, interval, partition, partition_width, now_ms)
    startup = bounds.startup(startup_mode, startup_timestamp, specific_offsets)
    bounded = bounds.bounded(bounded_mode, bounded_timestamp, bounded_offsets)
    problems += ends_before_start(startup, bounded)
    reset: ResetStrategy = problems.take("auto_offset_reset", lambda: parse_reset(auto_offset_reset), "latest")
    isolation: IsolationLevel = problems.take(
        "isolation_level",
        lambda: _one_of(isolation_level or "read_uncommitted", get_args(IsolationLevel)),
        "read_uncommitted",
    )
    data_loss: OnDataLoss = problems.take("on_data_loss", lambda: _one_of(on_data_loss, get_args(OnDataLoss)), "fail")
    recreated: OnRecreated = problems.take("on_recreated", lambda: _one_of(on_recreated, get_args(OnRecreated)), "fail")
    group_moved: OnGroupMoved = problems.take(
        "on_group_moved", lambda: _one_of(on_group_moved, get_args(OnGroupMoved)), "fail"
    )
    vanished: OnTopicVanished = problems.take(
        "on_topic_vanished", lambda: _one_of(on_topic_vanished, get_args(OnTopicVanished)), "fail"
    )
    superseded: OnSuperseded = problems.take(
        "on_superseded", lambda: _one_of(on_superseded, get_args(OnSuperseded)), "fail"
    )
    split_rule: SplitBy = problems.take("split_by", lambda: _one_of(split_by, get_args(SplitBy)), "size")
    if group_id is not None and not group_id.strip():
        problems.append(
            "group_id is empty; name the consumer group, or leave it out where no commit is read or written."
        )
    request = PlanRequest(
        subscription=subscription or TopicList(()),
        startup=startup or EarliestOffset(),  # stands in for one that is refused anyway: it needs nothing else
        bounded=bounded or UntilLatest(),
        group_id=group_id,
        isolation_level=isolation,
        auto_offset_reset=reset,
        auto_offset_reset_defaulted=auto_offset_reset is None,
        on_data_loss=data_loss,
        on_recreated=recreated,
        on_group_moved=group_moved,
        on_topic_vanished=vanished,
        on_superseded=superseded,
        re_plan=re_plan,
        restart=problems.take("restart", lambda: _word(restart), None),
        filter_restored_partitions=filter_restored_partitions,
        max_records=problems.take("max_records", lambda: _at_least_one(max_records), None),
        max_records_per_partition=problems.take(
            "max_records_per_partition", lambda: _at_least_one(max_records_per_partition), None
        ),
        splits=problems.take("splits", lambda: _at_least_one(splits), None) or 1,
        split_by=split_rule,
        checkpoint_id=checkpoint_id,
        require_complete_window=require_complete_window,
        idle_timeout_ms=problems.take(
            "idle_timeout",
            lambda: DEFAULT_IDLE_TIMEOUT_MS if idle_timeout is None else parse_wait_ms(idle_timeout),
            DEFAULT_IDLE_TIMEOUT_MS,
        ),
        interval=interval,
        run=run,
        by_hand=run_type == "manual",
        warnings=tuple(warnings),
    )
    if require_complete_window and bounded and not isinstance(bounded, UntilTimestamp):
        problems.append("require_complete_window needs bounded_mode='timestamp': only a time can be incomplete.")
    problems += _problems_between_parameters(request)
    if run_type == "backfill" and startup and bounded and not request.window:
        problems.append(
            "A backfill run reads a window, so that it neither reads nor moves the position of the schedule: "
            "use startup_mode='timestamp' and bounded_mode='timestamp', which take the run's data interval, "
            "or its partition."
        )
    if problems:
        raise InvalidRequest(tuple(problems))
    return request


def subscription_of(asker: object) -> dict[str, Any]:
    """The four parameters that say what to read, of an operator, a sensor or a trigger that has them as attributes."""
    return {name: getattr(asker, name) for name in ("topics", "topic_pattern", "partitions", "include_internal_topics")}


def parse_subscription(
    topics: Sequence[str] | str | None,
    topic_pattern: str | None,
    partitions: Mapping[str, Sequence[int]] | str | None,
    include_internal_topics: bool = False,
) -> Subscription:
    """What to read, on its own: for a sensor.

    :raises InvalidRequest: not exactly one is given, or it is malformed.
    """
    problems = Problems()
    subscription = _subscription(problems, topics, topic_pattern, partitions, include_internal_topics)
    if subscription is None:
        raise InvalidRequest(tuple(problems))
    return subscription


def _problems_between_parameters(request: PlanRequest) -> list[str]:
    problems = []
    if request.window and (request.max_records or request.max_records_per_partition):
        problems.append(
            "max_records and max_records_per_partition cannot be used with a window (both bounds given): "
            "a capped window would leave records that no later run reads. Use a smaller window."
        )
    if request.group_id is None:
        needing = [
            f"{parameter}={mode.name!r}"
            for parameter, mode in (("startup_mode", request.startup), ("bounded_mode", request.bounded))
            if isinstance(mode, GroupOffsets | UntilGroupOffsets)
        ]
        if needing:
            problems.append(
                f"{' and '.join(needing)} reads a committed offset, but there is no consumer group: "
                "give group_id, or set group.id in the Kafka connection."
            )
    return problems


def parse_reset(value: str | None) -> ResetStrategy:
    """Kafka's three strategies, by librdkafka's names for them too; absent is Kafka's own default, ``latest`` (A1)."""
    if value is None:
        return "latest"
    strategy = _RESET_SYNONYMS.get(str(value).strip().lower())
    if strategy is None:
        raise ValueError(f"is {value!r}; use one of earliest, latest, none")
    return strategy


def _subscription(
    problems: Problems,
    topics: Sequence[str] | str | None,
    topic_pattern: str | None,
    partitions: Mapping[str, Sequence[int]] | str | None,
    include_internal: bool,
) -> Subscription | None:
    given = {"topics": topics, "topic_pattern": topic_pattern, "partitions": partitions}
    named = [name for name, value in given.items() if value is not None]
    if len(named) != 1:
        problems.append(
            f"Give exactly one of topics, topic_pattern and partitions, not {' and '.join(named) or 'none'}."
        )
        return None
    if topics is not None:
        return problems.take("topics", lambda: TopicList(_topic_names(topics)), None)
    if topic_pattern is not None:
        return problems.take("topic_pattern", lambda: TopicPattern(_regex(topic_pattern), include_internal), None)
    return problems.take("partitions", lambda: PartitionSet(_partition_set(partitions or {})), None)


def _topic_names(topics: Sequence[str] | str) -> tuple[str, ...]:
    names = [name.strip() for name in topics.split(",")] if isinstance(topics, str) else list(topics)
    if not names or not all(isinstance(name, str) and name for name in names):
        raise ValueError(f"is {topics!r}; give at least one topic name, and no empty one")
    return tuple(sorted(set(names)))


def _regex(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{pattern!r} is not a regular expression: {error}") from None
    if not pattern:
        raise ValueError("is empty; it is matched against the whole name of each topic")
    return pattern


def _partition_set(partitions: Mapping[str, Sequence[int]] | str) -> tuple[TopicPartition, ...]:
    found = set()
    for topic, numbers in mapping(partitions, '{"orders": [0, 2]}').items():
        if isinstance(numbers, str) or not isinstance(numbers, Sequence) or not numbers:
            raise ValueError(f"has {numbers!r} for topic {topic!r}; expected a list such as [0, 2]")
        found |= {TopicPartition(topic, natural(n, f"has partition {n!r} of topic {topic!r}")) for n in numbers}
    if not found:
        raise ValueError('is empty; expected {"orders": [0, 2]}')
    return tuple(sorted(found))


def _one_of(value: str, allowed: tuple[Any, ...]) -> Any:
    if value not in allowed:
        raise ValueError(f"is {value!r}; use one of {', '.join(allowed)}")
    return value


def _word(value: str | None) -> str | None:
    if not isinstance(value, str | None):
        raise ValueError(f'is {value!r}; it must be a word, such as "2026-11-20"')
    word = (value or "").strip()
    if "\n" in word:
        raise ValueError(f"is {value!r}; it must be a word, without line ends")
    return word or None


def _at_least_one(value: int | str | None) -> int | None:
    if value is None:
        return None
    number = natural(value, f"is {value!r}")
    if number < 1:
        raise ValueError(f"is {value!r}; it must be at least 1")
    return number
