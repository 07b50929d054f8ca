"""What a test or the demo does to a cluster's topics: make, fill, trim and delete them.

Each function returns when its effect is a fact that the cluster itself states, so that nothing after it has to wait or
to sleep. It speaks to any cluster, through confluent-kafka and without the package under test.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

DEADLINE_S = 60.0  # against hanging, on a machine that is busy
_CHUNK = 500  # librdkafka's cost of one call grows with the square of its partitions

# Without a logger librdkafka writes to standard error, a line for each attempt at a broker that is not up yet.
quiet = logging.getLogger("testbed.kafka")
quiet.addHandler(logging.NullHandler())
quiet.propagate = False

Record = tuple[int, "bytes | str | None", "bytes | str | None", "int | None"]


def wait_for(what: str, is_fact: Callable[[], bool], deadline_s: float = DEADLINE_S) -> None:
    """Return when `is_fact()` is true; an exception of Kafka's counts as "not yet".

    :raises TimeoutError: naming what did not become true, and Kafka's last answer.
    """
    end = time.monotonic() + deadline_s
    last: Exception | None = None
    while time.monotonic() < end:
        try:
            if is_fact():
                return
        except KafkaException as error:
            last = error
        time.sleep(0.02)
    raise TimeoutError(f"after {deadline_s:.0f} s still not so: {what}" + (f" ({last})" if last else ""))


class Topics:
    """The topics of the cluster at `bootstrap_servers`; `client_config` is for what else a client needs (SASL)."""

    def __init__(self, bootstrap_servers: str, client_config: Mapping[str, Any] | None = None) -> None:
        self._client_config = {"bootstrap.servers": bootstrap_servers, **(client_config or {})}

    @property
    def client_config(self) -> dict[str, Any]:
        """What a client of librdkafka needs to reach the cluster."""
        return dict(self._client_config)

    def admin(self) -> AdminClient:
        """A new client. Keep it until its futures are resolved: one that is dropped before never answers."""
        return AdminClient(self.client_config, logger=quiet)

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        """A new topic; returns when each partition has a leader that answers for its offsets.

        :raises KafkaException: when the broker refuses, for example because it exists.
        """
        admin = self.admin()
        new = NewTopic(name, num_partitions=partitions, replication_factor=1, config=dict(config or {}))
        admin.create_topics([new], operation_timeout=DEADLINE_S)[name].result(DEADLINE_S)
        wait_for(f"topic {name} has {partitions} partitions", lambda: len(_partitions(admin, name)) == partitions)
        wait_for(f"the leaders of {name} answer", lambda: len(self.offset_bounds(name)) == partitions)

    def delete_topic(self, name: str) -> None:
        """Returns when the cluster knows no such topic any more; one of the same name may be created then."""
        admin = self.admin()
        admin.delete_topics([name], operation_timeout=DEADLINE_S)[name].result(DEADLINE_S)
        wait_for(f"topic {name} is gone", lambda: not _partitions(admin, name))

    def delete_records(self, before: Mapping[tuple[str, int], int]) -> None:
        """Delete the records of (topic, partition) before the offset, which becomes its log start offset."""
        admin = self.admin()
        request = [TopicPartition(topic, partition, offset) for (topic, partition), offset in before.items()]
        for asked, future in admin.delete_records(request).items():
            low = future.result(DEADLINE_S).low_watermark
            if low < asked.offset:
                raise AssertionError(f"{asked.topic}[{asked.partition}]: log start is {low}, not {asked.offset}")
        wait_for(
            "the log start offsets have moved",
            lambda: all(self.offset_bounds(t)[p][0] >= offset for (t, p), offset in before.items()),
        )

    def move_group(self, group: str, topic: str, partition: int, offset: int) -> None:
        """Commit an offset for a group, as another program would."""
        asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, partition, offset)])
        admin = self.admin()
        admin.alter_consumer_group_offsets([asked])[group].result(DEADLINE_S)

    def offset_bounds(self, topic: str) -> dict[int, tuple[int, int]]:
        """(log start offset, high watermark) of each partition; empty for a topic that does not exist.

        :raises KafkaException: when a leader does not answer.
        """
        admin = self.admin()
        partitions = _partitions(admin, topic)
        bounds: dict[int, list[int]] = {partition: [] for partition in partitions}
        for first in range(0, len(partitions), _CHUNK):
            chunk = [TopicPartition(topic, partition) for partition in partitions[first : first + _CHUNK]]
            for spec in (OffsetSpec.earliest(), OffsetSpec.latest()):
                futures = admin.list_offsets(dict.fromkeys(chunk, spec), request_timeout=DEADLINE_S)
                for tp, future in futures.items():
                    offset = future.result(DEADLINE_S).offset
                    if offset < 0:  # no exception, and no answer either: a leader that did not answer in time
                        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"{topic}[{tp.partition}]"))
                    bounds[tp.partition].append(offset)
        return {partition: (start, end) for partition, (start, end) in bounds.items()}

    def produce(self, topic: str, records: Iterable[Record]) -> list[int]:
        """Write (partition, key, value, timestamp_ms or None for now), one after the other; returns their offsets.

        :raises KafkaException: when one of them was not stored.
        """
        offsets: dict[int, int] = {}
        failed: list[KafkaError] = []
        producer = self._producer()

        def on_delivery(number: int) -> Callable[[KafkaError | None, Message], None]:
            def delivered(error: KafkaError | None, message: Message) -> None:
                if error is not None:
                    failed.append(error)
                else:
                    offsets[number] = message.offset()

            return delivered

        written = list(records)
        for number, (partition, key, value, timestamp_ms) in enumerate(written):
            _put(producer, topic, partition, key, value, timestamp_ms, on_delivery(number))
        _flush(producer, failed)
        return [offsets[number] for number in range(len(written))]

    def produce_many(
        self,
        topic: str,
        count: int,
        *,
        partitions: int = 1,
        value: Callable[[int], bytes] = lambda number: b"%d" % number,
        timestamp_ms: Callable[[int], int] | None = None,
    ) -> None:
        """Write records number 0 to `count` - 1, fast; number n goes to partition n % `partitions`, with key n.

        :raises KafkaException: when one of them was not stored.
        """
        failed: list[KafkaError] = []
        producer = self._producer()

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failed.append(error)

        for number in range(count):
            time_ms = timestamp_ms(number) if timestamp_ms else None
            _put(producer, topic, number % partitions, b"%d" % number, value(number), time_ms, delivered)
        _flush(producer, failed)

    def _producer(self) -> Producer:
        # In order and without duplicates: one request in flight, and none sent again. An idempotent producer would do
        # the same, but takes half a second for its first record.
        once = {"linger.ms": 5, "acks": "all", "max.in.flight": 1, "message.send.max.retries": 0}
        return Producer({**self.client_config, **once}, logger=quiet)


def _partitions(admin: AdminClient, topic: str) -> list[int]:
    """Those that have a leader, sorted; of all topics, because asking for one by name may create it."""
    known = admin.list_topics(timeout=DEADLINE_S).topics.get(topic)
    return sorted(p.id for p in known.partitions.values() if p.leader >= 0) if known else []


def _put(
    producer: Producer,
    topic: str,
    partition: int,
    key: bytes | str | None,
    value: bytes | str | None,
    timestamp_ms: int | None,
    on_delivery: Callable[[KafkaError | None, Message], None],
) -> None:
    more: dict[str, Any] = {} if timestamp_ms is None else {"timestamp": timestamp_ms}
    while True:
        try:
            producer.produce(topic, partition=partition, key=key, value=value, on_delivery=on_delivery, **more)
        except BufferError:  # the queue is full: serve delivery reports until it is not
            producer.poll(1.0)
        else:
            producer.poll(0)
            return


def _flush(producer: Producer, failed: list[KafkaError]) -> None:
    left = producer.flush(DEADLINE_S * 2)
    if failed:
        raise KafkaException(failed[0])
    if left:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"{left} records were not stored"))
