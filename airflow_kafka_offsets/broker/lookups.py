"""Where the logs start and end, and where a time lies in them: ``ListOffsets``, in chunks.

A look-up that nobody answered comes back as offset -1001 without an error (``rd_kafka_ListOffsets_response_merge``
drops it), so each offset is checked. librdkafka's cost grows with the square of the partitions in one call.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import IsolationLevel as KafkaIsolationLevel
from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, OffsetSpec

from airflow_kafka_offsets.broker.answers import Refusals, chunks, to_kafka
from airflow_kafka_offsets.broker.connection import Connection
from airflow_kafka_offsets.offsets.model import IsolationLevel, TopicPartition

LOOK_UP_CHUNK = 500
NO_RECORD = -1  # the answer of a timestamp look-up without a match; any other negative offset is no answer at all

_ISOLATION = {
    "read_uncommitted": KafkaIsolationLevel.READ_UNCOMMITTED,
    "read_committed": KafkaIsolationLevel.READ_COMMITTED,
}


def look_up(
    connection: Connection,
    specs: Mapping[TopicPartition, OffsetSpec],
    isolation_level: IsolationLevel,
    *,
    by_time: bool = False,
) -> dict[TopicPartition, Any]:
    """The answer of each partition; with ``by_time``, one whose offset is ``NO_RECORD`` says that there is none."""
    answers: dict[TopicPartition, Any] = {}

    def look(client: AdminClient) -> None:
        futures: dict[TopicPartition, Future[Any]] = {}
        for chunk in chunks([tp for tp in sorted(specs) if tp not in answers], LOOK_UP_CHUNK):
            asked = client.list_offsets(
                {to_kafka(tp): specs[tp] for tp in chunk},
                isolation_level=_ISOLATION[isolation_level],
                request_timeout=connection.attempt_s,
            )
            futures |= {TopicPartition(tp.topic, tp.partition): future for tp, future in asked.items()}
        refusals = Refusals("look up offsets", connection, "Describe")
        until = time.monotonic() + connection.attempt_s + 1
        for tp, future in futures.items():
            try:
                info = future.result(max(0.0, until - time.monotonic()))
            except KafkaException as error:
                refusals.add(tp, error.args[0])
                continue
            except TimeoutError:
                refusals.waiting[tp] = f"no answer within {connection.attempt_s:g} s"
                continue
            if info.offset >= 0 or (by_time and info.offset == NO_RECORD):
                answers[tp] = info
            else:
                refusals.waiting[tp] = f"nobody answered (offset {info.offset} without an error)"
        refusals.raise_final()
        if refusals.waiting:
            _name_the_cause(connection, client, refusals)
        refusals.settle()

    if specs:
        connection.ask("look up offsets", look)
    return answers


def _name_the_cause(connection: Connection, client: AdminClient, refusals: Refusals) -> None:
    """One partition without a leader makes librdkafka wait, and then fail the whole call: then name that one alone.

    Where each has a leader, the brokers that were asked are named.
    """
    try:
        metadata = client.list_topics(timeout=1.0)
    except KafkaException:
        return
    topics = metadata.topics
    unseen, causes = [], Refusals("look up offsets", connection, "Describe")
    for tp in refusals.waiting:
        assert isinstance(tp, TopicPartition)
        if tp.topic not in topics:
            unseen.append(tp)
        elif tp.partition not in topics[tp.topic].partitions:
            causes.waiting[tp] = "it does not exist"
        elif topics[tp.topic].partitions[tp.partition].leader < 0:
            causes.waiting[tp] = "it has no leader"
        else:
            leader = topics[tp.topic].partitions[tp.partition].leader
            known = metadata.brokers.get(leader)
            where = f" at {known.host}:{known.port}" if known else ", which the cluster does not list"
            refusals.waiting[tp] += f"; its leader is broker {leader}{where}"
    if unseen:  # a topic that this client may not describe is not in the list; asked for by name, it says so
        _ask_by_name(connection, client, unseen, causes)
    causes.settle()


def _ask_by_name(
    connection: Connection, client: AdminClient, partitions: list[TopicPartition], causes: Refusals
) -> None:
    names = sorted({tp.topic for tp in partitions})
    futures = client.describe_topics(TopicCollection(names), request_timeout=connection.attempt_s)
    for name, future in futures.items():
        try:
            future.result(connection.attempt_s + 1)
        except KafkaException as error:
            causes.add_all([tp for tp in partitions if tp.topic == name], error.args[0])
