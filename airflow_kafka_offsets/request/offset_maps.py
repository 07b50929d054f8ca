"""Offsets by partition in the forms that people have them in, both ways.

- JSON or a mapping, ``{"orders": {"0": 42}}``: as Spark and this package write them;
- Flink's SQL option, ``partition:0,offset:42;partition:1,offset:300``, of one topic (C13); for several topics each
  entry names its own, ``topic:orders,partition:0,offset:42`` (M8: Flink refuses several topics, FLINK-18602);
- the CSV of ``kafka-consumer-groups --reset-offsets --export`` and ``--from-file``: ``topic,partition,offset`` a line,
  or ``group,topic,partition,offset`` for several groups;
- a file of a Structured Streaming checkpoint, ``offsets/12`` or ``sources/0/0``: a version, and JSON for each
  source;
- the checkpoint of a Hudi Streamer, ``orders,0:42,1:17``.

An offset is the next record to read. A negative one is somebody's sentinel and is refused by name (A9, C10): -1 means
"latest" to one tool and "nothing" to another, and only a mode says which was meant.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from airflow_kafka_offsets.errors import named
from airflow_kafka_offsets.json_columns import NamedTwice, read_json
from airflow_kafka_offsets.kafka_values import TopicPartition, values_by_topic
from airflow_kafka_offsets.request.modes import FromLogEnd
from airflow_kafka_offsets.request.problems import WrongTogether

EXAMPLE = '{"orders": {"0": 42}}'

# Flink's KafkaSource and Kafka's tools, then FlinkKafkaConsumer (KafkaTopicPartitionStateSentinel).
_SENTINELS: Mapping[int, str] = {
    -1: "latest",
    -2: "earliest",
    -3: "committed",
    -915623761773: "committed",
    -915623761774: "latest",
    -915623761775: "earliest",
    -915623761776: "not set",
}
_FROM_LOG_END = re.compile(r"latest-([0-9]{1,18})|earliest\+([0-9]{1,18})")
_FLINK_ENTRY = re.compile(r"(?:topic:([^,;]+),)?partition:(\d+),offset:(-?\d+)")
_OF_HUDI = re.compile(r"([\w.-]+)((?:,\d+:\d+)+)")  # as its CheckpointUtils.offsetsToStr writes it
_HUDI_ENTRY = re.compile(r",(\d+):(\d+)")
_ZERO = "\0"  # Spark begins sources/0/0 with it (SPARK-19517)
_OF_CHECKPOINT = re.compile(rf"{_ZERO}?v\d+\n")
_SOURCE_ID = re.compile(r"^[^{\[\":]+:")  # before each source's offsets in the second version, of Spark 4.1


def parse_offset_bounds(
    value: Any, topics: Sequence[str] = (), group_id: str | None = None
) -> tuple[dict[TopicPartition, int | FromLogEnd], dict[str, FromLogEnd]]:
    """Offsets from any of the forms, by partition and by topic.

    In JSON and in a mapping, the offset of a partition or of a topic may also be ``latest-1000`` or ``earliest+10``.

    :param topics: the topics that are subscribed to; Flink's form may leave the topic out where there is one.
    :param group_id: whose lines of a CSV of several groups are taken.
    :raises ValueError: what is wrong, as the end of a sentence that begins with the parameter's name.
    """
    if isinstance(value, str):
        text = value.strip()
        if text.startswith(("partition:", "topic:")):
            return {**each_once(_from_flink(text, topics))}, {}
        if _OF_CHECKPOINT.match(text):
            return dict(_from_checkpoint(text)), {}
        if match := _OF_HUDI.fullmatch(text):
            entries = _HUDI_ENTRY.sub(rf"topic:{match[1]},partition:\1,offset:\2;", match[2])
            return {**each_once(_from_flink(entries, topics))}, {}
        if not text.startswith(("{", "[", '"{', "@")) and text.count(",") >= 2:
            return dict(_from_csv(value, group_id)), {}
    offsets: dict[TopicPartition, int | FromLogEnd] = {}
    by_topic: dict[str, FromLogEnd] = {}
    for topic, of_topic in mapping(value, EXAMPLE).items():
        if isinstance(of_topic, str):
            by_topic[topic] = _from_log_end(of_topic, f"has {of_topic!r} for topic {topic!r}")
            continue
        if not isinstance(of_topic, Mapping):
            raise ValueError(f'has {of_topic!r} for topic {topic!r}; expected {{"0": 42}}')
        for partition, offset in of_topic.items():
            tp = partition_named(topic, natural(partition, f"has partition {partition!r} of topic {topic!r}"))
            if tp in offsets:  # as "0" and "00", or as text and as a number
                raise ValueError(f"names {tp} twice")
            parse = _from_log_end if _is_word(offset) else _offset
            offsets[tp] = parse(offset, f"has offset {offset!r} for {tp}")
    return offsets, by_topic


def parse_partition_offsets(
    value: Mapping[str, Mapping[str, int]] | str, topics: Sequence[str] = (), group_id: str | None = None
) -> dict[TopicPartition, int]:
    """The same, where each offset is a number of a partition."""
    found, by_topic = parse_offset_bounds(value, topics, group_id)
    offsets = {tp: offset for tp, offset in found.items() if isinstance(offset, int)}
    if by_topic or len(offsets) < len(found):
        raise ValueError("has an offset in words, such as latest-1000; here each is the number of a partition's offset")
    return offsets


def _is_word(value: object) -> bool:
    return isinstance(value, str) and value.strip()[:1].isalpha()


def _from_log_end(text: str, subject: str) -> FromLogEnd:
    match = _FROM_LOG_END.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{subject}; expected an offset, latest-1000 or earliest+10")
    return FromLogEnd("latest" if match[1] else "earliest", int(match[1] or match[2]))


def to_flink(offsets: Mapping[TopicPartition, int]) -> str:
    """Flink's form; with ``topic:`` before each entry where there are several topics."""
    several = len({tp.topic for tp in offsets}) > 1
    return ";".join(
        (f"topic:{tp.topic}," if several else "") + f"partition:{tp.partition},offset:{offsets[tp]}"
        for tp in sorted(offsets)
    )


def to_csv(offsets: Mapping[TopicPartition, int]) -> str:
    """What ``kafka-consumer-groups --reset-offsets --from-file`` reads for one group; topic names need no quotes."""
    return "\n".join(f"{tp.topic},{tp.partition},{offsets[tp]}" for tp in sorted(offsets))


def each_once(offsets: Iterable[tuple[TopicPartition, int]]) -> dict[TopicPartition, int]:
    """:raises ValueError: a partition is named twice."""
    found: dict[TopicPartition, int] = {}
    for tp, offset in offsets:
        if tp in found:
            raise ValueError(f"names {tp} twice")
        found[tp] = offset
    return found


def _from_flink(text: str, topics: Sequence[str]) -> Iterator[tuple[TopicPartition, int]]:
    for entry in text.removesuffix(";").split(";"):
        match = _FLINK_ENTRY.fullmatch(entry)
        if match is None:
            raise ValueError(f"has {entry!r}; expected partition:0,offset:42;partition:1,offset:300")
        topic = match[1]
        if topic is None and len(topics) != 1:
            raise ValueError(
                f"has {entry!r}, which names no topic: put topic:NAME, before it, or list exactly one topic"
            )
        tp = partition_named(topic or topics[0], natural(match[2], f"has partition {match[2]}"))
        yield tp, _offset(match[3], f"has offset {match[3]} for {tp}")


def _from_csv(text: str, group_id: str | None) -> dict[TopicPartition, int]:
    offsets: dict[TopicPartition, int] = {}
    groups = set()
    for number, row in enumerate(_csv_rows(text), 1):
        cells = [cell.strip() for cell in row]
        if not any(cells):
            continue
        if len(cells) not in (3, 4):
            raise ValueError(f"has {len(cells)} fields on line {number}; expected topic,partition,offset")
        *group, topic, partition, offset = cells
        groups.update(group)
        if group and group_id is not None and group[0] != group_id:
            continue
        tp = partition_named(topic, natural(partition, f"has partition {partition!r} on line {number}"))
        if tp in offsets:
            raise ValueError(f"names {tp} again on line {number}")
        offsets[tp] = _offset(offset, f"has offset {offset} for {tp} on line {number}")
    if groups and (group_id is None or group_id not in groups):
        raise WrongTogether(
            f"holds offsets of the groups {', '.join(sorted(groups))}, and {named('group_id')} is {group_id!r}",
            "group_id",
        )
    return offsets


def _from_checkpoint(text: str) -> dict[TopicPartition, int]:
    """What Spark writes in ``OffsetSeqLog`` and ``KafkaSourceInitialOffsetWriter``; other sources than Kafka's pass.

    :raises ValueError: no source reads Kafka, or two of them stand at different offsets of one partition.
    """
    version, *lines = text.removeprefix(_ZERO).splitlines()
    if version not in ("v1", "v2"):
        raise ValueError(f"is a file of a Structured Streaming checkpoint in version {version}; v1 and v2 are known")
    offsets: dict[TopicPartition, int] = {}
    for line in lines:
        for tp, offset in parse_partition_offsets(_of_kafka(line)).items():
            if offsets.setdefault(tp, offset) != offset:
                raise ValueError(
                    f"is a checkpoint of which two sources read {tp}, one up to {offsets[tp]} and one up to {offset}: "
                    "give the offsets of one of them"
                )
    if not offsets:
        raise ValueError("is a file of a Structured Streaming checkpoint without a source that reads Kafka")
    return offsets


def _of_kafka(line: str) -> dict[str, dict[str, int]]:
    """The offsets in a line, which are known by their form: numbers by number by name."""
    text = _SOURCE_ID.sub("", line)
    if text in ("", "-"):
        return {}
    try:
        found = read_json(text)
    except ValueError as error:
        raise ValueError(
            f"is a file of a Structured Streaming checkpoint with a line that is no JSON: {error}"
        ) from None
    if not isinstance(found, dict):
        return {}
    return found if all(isinstance(of, dict) and all(map(str.isdecimal, of)) for of in found.values()) else {}


def to_initial_offsets(offsets: Mapping[TopicPartition, int]) -> str:
    """``sources/0/0`` of a checkpoint: where a query begins that has done no batch, whatever its options say."""
    return f"{_ZERO}v1\n{json.dumps(values_by_topic(offsets), separators=(',', ':'))}"


def _csv_rows(text: str) -> list[list[str]]:
    try:
        return list(csv.reader(text.splitlines()))
    except csv.Error as error:  # a field of more than 128 KiB
        raise ValueError(f"is no CSV: {error}") from None


IN_PLACES = ("specific_offsets", "bounded_offsets", "from_plan")
"""The parameters whose value may be ``@`` and a place that has it: a file, or a query's checkpoint."""


def is_place(value: object) -> bool:
    """Whether it is ``@`` and a place, which a resolve task or a command reads before."""
    return isinstance(value, str) and value.startswith("@")


def mapping(value: Mapping[str, Any] | str, example: str) -> Mapping[str, Any]:
    """``value`` itself, or the object that its JSON describes."""
    if is_place(value):
        raise ValueError(f"is {value!r}, which a resolve task or a command reads: give what is there; as {example}")
    if isinstance(value, str):
        try:
            value = read_json(value)
        except NamedTwice:
            raise
        except ValueError as error:
            raise ValueError(f"is not JSON ({error}); expected {example}") from None
    if not isinstance(value, Mapping):
        raise ValueError(f"is {value!r}; expected {example}")
    wrong = [name for name in value if not isinstance(name, str)]
    if wrong:
        raise ValueError(f"has topic {wrong[0]!r}, which is no text; put the name in quotes")
    return value


TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def partition_named(topic: str, number: int) -> TopicPartition:
    """:raises ValueError: Kafka has no such name for a topic, or no such number for a partition."""
    if not TOPIC.fullmatch(topic):
        raise ValueError(f"has topic {topic!r}; Kafka's topic names have letters, digits, '.', '_' and '-', up to 249")
    if number >= 2**31:
        raise ValueError(f"has partition {number} of topic {topic!r}; Kafka's highest is {2**31 - 1}")
    return TopicPartition(topic, number)


def record_named(text: str, subject: str) -> tuple[TopicPartition, int]:
    """``orders-3:4711``: a partition, and an offset in it.

    :param subject: what begins the sentence that says what is wrong.
    :raises ValueError: it is none.
    """
    where, _, offset = text.strip().rpartition(":")
    tp = dashed_partition(where, subject, "<topic>-<partition>:<offset>, such as orders-3:4711")
    return tp, natural(offset, f"has offset {offset!r} for {tp}")


def dashed_partition(
    text: str, subject: str, expected: str = "<topic>-<partition>, such as orders-3"
) -> TopicPartition:
    """``orders-3``, as Kafka's own logs write a partition.

    :raises ValueError: it is none.
    """
    topic, _, number = text.strip().rpartition("-")
    if not topic or not (number.isascii() and number.isdecimal()):
        raise ValueError(f"{subject}; expected {expected}")
    return partition_named(topic, natural(number, subject))


def natural(value: object, subject: str) -> int:
    """A whole number that is not negative, also from its digits."""
    number = _whole(value, subject)
    if number < 0:
        raise ValueError(f"{subject}, which is negative")
    return number


def at_least_one(value: Any) -> int | None:
    """:raises ValueError: it is no whole number, or 0 or less."""
    if value is None:
        return None
    number = natural(value, f"is {value!r}")
    if number < 1:
        raise ValueError(f"is {value!r}; it must be at least 1")
    return number


def _offset(value: object, subject: str) -> int:
    number = _whole(value, subject)
    if number < 0:
        meaning = f" ({_SENTINELS[number]!r} in Flink and Kafka's tools)" if number in _SENTINELS else ""
        raise ValueError(f"{subject}: negative numbers are sentinels{meaning}, not offsets; use a mode instead")
    return number


def _whole(value: object, subject: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(f"{subject}, which is not a whole number")
    try:
        number = int(value)
    except ValueError:
        raise ValueError(f"{subject}, which is not a whole number") from None
    if not -(2**63) <= number < 2**63:
        raise ValueError(f"{subject}, which has more than the 64 bits that Kafka has for it")
    return number
