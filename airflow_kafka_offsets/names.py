# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except in compliance
# with the License. You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License is distributed
# on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the License for
# the specific language governing permissions and limitations under the License.
"""Names and numbers as people write them: topics, partitions, groups, pipelines, whole numbers.

Each function returns the value, or raises ``ValueError`` with a sentence that follows the parameter's name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import re2

from airflow_kafka_offsets.errors import shown
from airflow_kafka_offsets.json_columns import read_json
from airflow_kafka_offsets.kafka_values import PartitionSet, Subscription, TopicList, TopicPartition, TopicPattern

PAGE = "/kafka-offsets"
"""Below Airflow's own address."""

_TOPIC = re.compile(r"(?!\.\.?\Z)[a-zA-Z0-9._-]{1,249}")  # org.apache.kafka.common.internals.Topic
_DIGITS = re.compile(r"\s*[-+]?[0-9]{1,30}\s*")
# Measured on a 4.1 broker: a request's string has 32,767 bytes at most (KIP-482), and from 32,736 on the broker cannot
# describe a group that it has.
_MAX_GROUP_ID_BYTES = 32_700
_MAX_PIPELINE_ID = 200


def line_of_text(value: Any) -> str:
    """Text on one line, without control characters and lone surrogates; not empty."""
    if not isinstance(value, str):
        raise ValueError(f"is {shown(value)}, which is not text; put it in quotes")
    if not value.strip():
        raise ValueError(f"is {shown(value)}, which is empty")
    strange = next((c for c in value if not c.isprintable()), None)
    if strange is not None:
        raise ValueError(f"is {shown(value)}, which has the control character {shown(strange)}")
    return value


def group_name(value: Any) -> str:
    """A group that librdkafka can use: it ends the process at an empty name, and cuts leading white space off."""
    name = line_of_text(value)
    if name[0] == " ":
        raise ValueError(f"is {shown(name)}, which begins with a space: the Kafka client would use another group")
    size = len(name.encode())
    if size > _MAX_GROUP_ID_BYTES:
        raise ValueError(f"has {size:,} bytes; Kafka takes {_MAX_GROUP_ID_BYTES:,} at most")
    return name


def pipeline_name(value: Any) -> str:
    name = line_of_text(value)
    if "/" in name:
        raise ValueError(f"is {shown(name)}; '/' separates a pipeline from its shards, so it cannot be in the name")
    if len(name) > _MAX_PIPELINE_ID:
        raise ValueError(f"has {len(name)} characters; give {_MAX_PIPELINE_ID} at most")
    return name


def topic_name(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"has topic {shown(value)}, which is not text; put the name in quotes")
    if not _TOPIC.fullmatch(value):
        raise ValueError(f"has topic {shown(value)}; topic names have letters, digits, '.', '_' and '-', up to 249")
    return value


def partition(topic: Any, number: Any) -> TopicPartition:
    name = topic_name(topic)
    value = whole_number(number, f"has partition {{}} of topic {name}")
    if not 0 <= value < 2**31:
        raise ValueError(f"has partition {value} of topic {name}; partitions are 0 to {2**31 - 1}")
    return TopicPartition(name, value)


def dashed_partition(text: Any) -> TopicPartition:
    """``orders-3``, as Kafka writes a partition."""
    topic, dash, number = str(text).strip().rpartition("-")
    if not isinstance(text, str) or not dash:
        raise ValueError(f"has {shown(text)}; expected <topic>-<partition>, such as orders-3")
    return partition(topic, number)


def partition_offset(text: Any) -> tuple[TopicPartition, int]:
    """``orders-3:4711``: an offset of a partition."""
    where, colon, number = str(text).strip().rpartition(":")
    if not isinstance(text, str) or not colon:
        raise ValueError(f"is {shown(text)}; expected <topic>-<partition>:<offset>, such as orders-3:4711")
    offset = whole_number(number, "has offset {}")
    if offset < 0:
        raise ValueError(f"is {shown(text)}; an offset cannot be negative")
    return dashed_partition(where), offset


def whole_number(value: Any, subject: str) -> int:
    """A whole number of 64 bits, also from its digits.

    :param subject: begins the sentence that says what is wrong; ``{}`` in it is the value.
    """
    number = int(value) if isinstance(value, str) and _DIGITS.fullmatch(value) else value
    if isinstance(number, bool) or not isinstance(number, int):
        raise ValueError(f"{subject.format(shown(value))}, which is not a whole number")
    if not -(2**63) <= number < 2**63:
        raise ValueError(f"{subject.format(shown(value))}, which has more than 64 bits")
    return number


def partitions_by_topic(topics: Mapping[Any, Any]) -> tuple[TopicPartition, ...]:
    """``{"orders": [0, 2]}`` → its partitions, sorted."""
    partitions = set()
    for topic, numbers in topics.items():
        if not isinstance(numbers, Sequence) or isinstance(numbers, str | bytes) or not numbers:
            raise ValueError(f"has {shown(numbers)} for topic {shown(topic)}; expected a list such as [0, 2]")
        partitions |= {partition(topic, number) for number in numbers}
    if not partitions:
        raise ValueError("is empty; expected {'orders': [0, 2]}")
    return tuple(sorted(partitions))


def subscription(value: Any) -> Subscription:
    """``["orders"]``, ``"orders,payments"``, ``{"orders": [0, 2]}``, ``"^orders-.*"``; also the JSON of the first and
    the third, which a template renders with ``| tojson``."""
    if isinstance(value, str) and value.startswith("^"):
        return TopicPattern(_regex(value))
    if isinstance(value, str) and value.lstrip().startswith(("{", "[")):
        try:
            value = read_json(value)
        except ValueError as error:
            raise ValueError(f"is not JSON ({error}); let the template render it with | tojson") from None
    if isinstance(value, Mapping):
        return PartitionSet(partitions_by_topic(value))
    if isinstance(value, str):
        value = [name.strip() for name in value.split(",")]
    if not isinstance(value, Sequence) or isinstance(value, bytes) or not value:
        raise ValueError(f"is {shown(value)}; give ['orders'], 'orders,payments', {{'orders': [0, 2]}} or '^orders-.*'")
    return TopicList(tuple(sorted(set(map(topic_name, value)))))


def _regex(pattern: str) -> str:
    options = re2.Options()
    options.log_errors = False
    try:
        re2.compile(line_of_text(pattern), options)
    except re2.error as error:
        problem = error.args[0].decode(errors="replace")
        raise ValueError(
            f"{shown(pattern)} is not a regular expression of RE2: {problem}. "
            "RE2 has no look-around and no back-references: https://github.com/google/re2/wiki/Syntax"
        ) from None
    return pattern
