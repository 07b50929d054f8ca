"""The scope of a question: topics, group, isolation level and pipeline. Sensors, lag and plans share it.

What the parameters leave out, the connection's consumer settings say.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar, get_args

from airflow_kafka_offsets.errors import CONNECTION, InvalidRequest, named, names
from airflow_kafka_offsets.kafka_values import IsolationLevel, TopicPartition
from airflow_kafka_offsets.request.offset_maps import TOPIC, mapping, natural, partition_named
from airflow_kafka_offsets.request.parameters import ScopeParameters
from airflow_kafka_offsets.request.problems import Problems, one_line, one_of, plain_text

T = TypeVar("T", bound=ScopeParameters)

_INTERNAL_TOPICS = {"__consumer_offsets", "__transaction_state", "__share_group_state"}  # Kafka's Topic.INTERNAL_TOPICS


@dataclass(frozen=True, slots=True)
class TopicList:
    """These topics, all of their partitions.

    :ivar all_exist: whether one that does not exist is an error; else those count that do.
    """

    topics: tuple[str, ...]
    all_exist: bool = True

    def __str__(self) -> str:
        return f"topics {', '.join(self.topics)}"

    def has(self, tp: TopicPartition) -> bool:
        return tp.topic in self.topics

    @property
    def named(self) -> tuple[str, ...]:
        """The topics that have to exist."""
        return self.topics if self.all_exist else ()


@dataclass(frozen=True, slots=True)
class TopicPattern:
    """Every topic whose *whole* name matches (G2), and none of Kafka's internal ones (G4)."""

    pattern: str
    named: ClassVar[tuple[str, ...]] = ()

    def __str__(self) -> str:
        return f"pattern {self.pattern}"

    def has(self, tp: TopicPartition) -> bool:
        return self.matches(tp.topic)

    def matches(self, topic: str) -> bool:
        return topic not in _INTERNAL_TOPICS and re.fullmatch(self.pattern, topic) is not None


@dataclass(frozen=True, slots=True)
class PartitionSet:
    """These partitions and no others."""

    partitions: tuple[TopicPartition, ...]

    def __str__(self) -> str:
        return f"partitions {', '.join(map(str, self.partitions))}"

    def has(self, tp: TopicPartition) -> bool:
        return tp in self.partitions

    @property
    def named(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(tp.topic for tp in self.partitions))


Subscription = TopicList | TopicPattern | PartitionSet
SUBSCRIPTION = ("topics", "topic_pattern", "partitions")
"""The parameters that say which topics; exactly one of them is given."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The scope of a question.

    :ivar group_id: the consumer group; ``None`` where none is given.
    :ivar pipeline_id: the pipeline, whose position is saved under this name; ``None``: it has none.
    """

    subscription: Subscription
    group_id: str | None = None
    isolation_level: IsolationLevel = "read_uncommitted"
    pipeline_id: str | None = None


_SETTINGS = {"group_id": "group.id", "isolation_level": "isolation.level", "auto_offset_reset": "auto.offset.reset"}


def with_connection(client_config: Mapping[str, Any], asked: T) -> T:
    return replace(asked, **{name: client_config.get(_SETTINGS[name]) for name in _left_out(asked)})


def by_connection(asked: ScopeParameters) -> dict[str, str]:
    """What problems call the parameters that the connection decides: its settings."""
    return {name: f"{_SETTINGS[name]} in {named(CONNECTION)}" for name in _left_out(asked)}


def _left_out(asked: ScopeParameters) -> list[str]:
    """The parameters that the connection decides."""
    return [name for name in _SETTINGS if getattr(asked, name, "none") is None]


def scope_for(client_config: Mapping[str, Any], asked: ScopeParameters) -> Scope:
    """:raises InvalidRequest: with every problem."""
    with names(by_connection(asked)):
        return parse_scope(with_connection(client_config, asked))


def parse_scope(parameters: ScopeParameters) -> Scope:
    """The scope on its own, for sensors and the command line.

    :raises InvalidRequest: with every problem.
    """
    problems = Problems()
    scope = take_scope(problems, parameters)
    if problems or scope is None:
        raise InvalidRequest(tuple(problems))
    return scope


def take_scope(problems: Problems, asked: ScopeParameters) -> Scope | None:
    """The scope, or ``None`` where the subscription is wrong; each problem goes to ``problems``."""
    subscription = _subscription(problems, asked)
    isolation: IsolationLevel = problems.take(
        "isolation_level",
        lambda: one_of(
            "read_uncommitted" if asked.isolation_level is None else asked.isolation_level, get_args(IsolationLevel)
        ),
        "read_uncommitted",
    )
    group_id = problems.take("group_id", lambda: parse_group_id(asked.group_id, _GROUP), None)
    pipeline_id = problems.take("pipeline_id", lambda: parse_name(asked.pipeline_id, _PIPELINE), None)
    return None if subscription is None else Scope(subscription, group_id, isolation, pipeline_id)


_GROUP = "is empty; name the consumer group, or leave it out where no commit is read or written"
_PIPELINE = "is empty; name the pipeline, or leave it out"


def default_pipeline_id(group_id: str | None, dag_id: str, task_id: str) -> str:
    """The default name of a pipeline. It has the DAG and the task, so two pipelines of one group have two names."""
    return "/".join([*([group_id] if group_id else []), dag_id, task_id])


def parse_name(value: str | None, if_empty: str) -> str | None:
    """A group's or a pipeline's name.

    :param if_empty: what is wrong then, as the end of a sentence.
    :raises ValueError: what is wrong with it.
    """
    if value is None:
        return None
    if not isinstance(value, str):
        raise ValueError(f"is {value!r}, which is no text; put it in quotes")
    if not value.strip():
        raise ValueError(if_empty)
    return one_line(value)


def parse_group_id(value: str | None, if_empty: str) -> str | None:
    """A group's name: as ``parse_name``, before a cluster is asked."""
    name = parse_name(value, if_empty)
    return None if name is None else usable_group_id(name)


def usable_group_id(group_id: str) -> str:
    """:raises ValueError: a name that librdkafka or Kafka cannot use."""
    problem = group_id_problem(group_id)
    if problem is not None:
        shown = group_id if len(group_id) <= 80 else f"{group_id[:80]}…"
        raise ValueError(f"{shown!r} {problem}")
    return group_id


# Measured on a 4.1 broker: 32,767 bytes is what a request's string may be (KIP-482), and from 32,736 on the broker
# cannot describe a group that it has (its answer is UNKNOWN).
MAX_GROUP_ID_BYTES = 32_700
_CUT_OFF = " \t\n\v\f\r"  # C's isspace(), which librdkafka skips at the beginning of a value


def group_id_problem(group_id: str) -> str | None:
    """Why a group's name cannot be used, as the end of a sentence that begins with the name; ``None`` if it can.

    librdkafka does not refuse such names: it ends the process by an assertion (an empty one, one that UTF-8 cannot
    write), asks for another group (it cuts leading white space off, and everything from a NUL on) or waits until the
    deadline (a long one).
    """
    if not group_id.strip(_CUT_OFF):
        return "is empty"
    if group_id[0] in _CUT_OFF:
        return "begins with white space, which the Kafka client cuts off: it would use another group"
    if "\0" in group_id:
        return "has a NUL in it, where the Kafka client ends the name: it would use another group"
    try:
        size = len(group_id.encode())
    except UnicodeEncodeError as error:
        return f"cannot be written as UTF-8 (character {error.start + 1} is a lone surrogate)"
    if size > MAX_GROUP_ID_BYTES:
        return f"has {size} bytes, and Kafka takes {MAX_GROUP_ID_BYTES} at most"
    return None


def _subscription(problems: Problems, asked: ScopeParameters) -> Subscription | None:
    given = [name for name in SUBSCRIPTION if getattr(asked, name) is not None]
    if len(given) != 1:
        *first, last = map(named, SUBSCRIPTION)
        found = " and ".join(map(named, given)) or "none"
        problems.add(f"Give exactly one of {', '.join(first)} and {last}, not {found}.", *SUBSCRIPTION)
        return None
    match given[0]:
        case "topics":
            return problems.take("topics", lambda: TopicList(_topic_names(asked.topics)), None)
        case "partitions":
            return problems.take("partitions", lambda: PartitionSet(_partition_set(asked.partitions or {})), None)
    return problems.take("topic_pattern", lambda: TopicPattern(_regex(asked.topic_pattern)), None)


def _topic_names(topics: Any) -> tuple[str, ...]:
    if isinstance(topics, str):
        names = [name.strip() for name in topics.split(",")]
    elif isinstance(topics, Sequence):
        names = list(topics)
    else:
        raise ValueError(
            f"is {topics!r}, which is no text; put the name in quotes (under render_template_as_native_obj a template "
            "that renders to 2026 or True is no text: write \"'{{ params.topic }}'\")"
        )
    wrong = [name for name in names if not isinstance(name, str)]
    if wrong:
        raise ValueError(f"has {wrong[0]!r}, which is no text; put the name in quotes")
    if not names or not all(names):
        raise ValueError(f"is {topics!r}; give at least one topic name, and no empty one")
    illegal = [name for name in names if not TOPIC.fullmatch(name)]
    if illegal:
        raise ValueError(f"has {illegal[0]!r}; Kafka's topic names have letters, digits, '.', '_' and '-', up to 249")
    return tuple(sorted(set(names)))


def _regex(pattern: Any) -> str:
    if not isinstance(pattern, str) or not pattern:
        raise ValueError(f"is {pattern!r}; give a regular expression, which is matched against the whole name")
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"{pattern!r} is not a regular expression: {error}") from None
    return plain_text(pattern)


def _partition_set(partitions: Mapping[str, Sequence[int]] | str) -> tuple[TopicPartition, ...]:
    found = set()
    for topic, numbers in mapping(partitions, '{"orders": [0, 2]}').items():
        if isinstance(numbers, str) or not isinstance(numbers, Sequence) or not numbers:
            raise ValueError(f"has {numbers!r} for topic {topic!r}; expected a list such as [0, 2]")
        found |= {partition_named(topic, natural(n, f"has partition {n!r} of topic {topic!r}")) for n in numbers}
    if not found:
        raise ValueError('is empty; expected {"orders": [0, 2]}')
    return tuple(sorted(found))
