"""A plan of many partitions, beside the raw requests that it needs and a loop over the partitions.

``python -m benchmarks.bench`` (``make bench``). A plan is a whole resolve: what it asks Kafka by a client of its own,
each partition decided, the batch recorded (in memory), and the options of Spark's source. Beside it: the same requests
over plain sockets (``floor.py``), and what people write instead, ``get_watermark_offsets`` of one partition after the
other, which gives both ends of the logs and nothing else.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as KafkaPartition

from airflow_kafka_offsets.broker.cluster import KafkaCluster
from airflow_kafka_offsets.kafka_values import CommittedOffset, TopicPattern
from airflow_kafka_offsets.store.memory import MemoryStore
from benchmarks.clusters import PATTERN, many_partitions
from benchmarks.floor import Floor
from benchmarks.measured import Way, options, say, show, take_turns, whole, within
from benchmarks.pipeline import Pipeline
from testbed.java import find_java
from testbed.topics import quiet

FIRST_GROUP, LATER_GROUP = "bench-first", "bench-later"
MOST, FEWEST_OF_LOOP = 4.0, 10_000


def main() -> int:
    parser = options(__doc__, rounds=9)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 1_000, 10_000])
    asked = parser.parse_args()
    java, rows = find_java(say), []
    for size in asked.sizes:
        with many_partitions(java, size) as cluster:
            committed = prepare(cluster.near, size)
            for network, servers in (("loopback", cluster.near), ("1 ms", cluster.far)):
                say(f"{size:,} partitions, {network}")
                rows.append(measure(size, network, servers, committed, asked.rounds))
    columns = (
        "partitions", "network", "raw requests, ms", "first plan, ms", "× raw", "later plan, ms", "× raw",
        f"at most, from {FEWEST_OF_LOOP:,} on", "loop, ms", "× later plan",
    )  # fmt: skip
    sentence = (
        "A plan of 10,000 partitions takes at most 4 times as long as the raw requests; a loop over the "
        "partitions, which also knows no group, takes many times as long as the plan."
    )
    show("bench", "Plans of many partitions", columns, rows, sentence, "confluent-kafka", write=asked.write)
    return 0


def prepare(servers: str, size: int) -> Mapping[str, bytes]:
    """Commit offsets of one group by hand, and a batch of one record per partition. Returns that batch's log."""
    with KafkaCluster({"bootstrap.servers": servers}) as kafka:
        partitions = kafka.describe(TopicPattern(PATTERN)).partitions
        assert len(partitions) == size, (len(partitions), size)
        kafka.commit_offsets(FIRST_GROUP, dict.fromkeys(partitions, CommittedOffset(0)))
    store = MemoryStore()
    first = Pipeline(servers, {"topics": f"^{PATTERN}", "group_id": LATER_GROUP}, store)
    first.commit(first.resolve(max_records=size, require_report=False))
    return store.objects


def measure(size: int, network: str, servers: str, committed: Mapping[str, bytes], rounds: int) -> tuple[object, ...]:
    def plan(group_id: str, log: Mapping[str, bytes]) -> Callable[[], object]:
        def resolve() -> None:
            store = MemoryStore()
            store.objects.update(log)
            work = Pipeline(servers, {"topics": f"^{PATTERN}", "group_id": group_id}, store).resolve()
            assert len(work.offset_options()) == 3
            assert work.batch.plan.partitions == size

        return resolve

    raw = Way("raw requests", whole(lambda: _raw(servers)))
    first = Way("first plan", whole(plan(FIRST_GROUP, {})))
    later = Way("later plan", whole(plan(LATER_GROUP, committed)))
    loop = Way("loop", whole(_loop(servers)), rounds=3)
    take_turns([raw, first, later, loop], rounds)
    promised = within(max(first.times(raw), later.times(raw)), MOST)
    return (
        f"{size:,}", network, f"{raw.median_s * 1000:,.1f}",
        f"{first.median_s * 1000:,.1f}", f"{first.times(raw):.1f}",
        f"{later.median_s * 1000:,.1f}", f"{later.times(raw):.1f}",
        promised if size >= FEWEST_OF_LOOP else "",
        f"{loop.median_s * 1000:,.0f}", f"{loop.times(later):.1f}",
    )  # fmt: skip


def _raw(servers: str) -> None:
    """Over connections of its own, as a plan has a client of its own."""
    with Floor(servers) as floor:
        floor.plan(LATER_GROUP)


def _loop(servers: str) -> Callable[[], object]:
    """Over one client that stays, which it gets for nothing."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "loop", "enable.auto.commit": False}, logger=quiet)
    topics = consumer.list_topics(timeout=60.0).topics.values()
    partitions = [KafkaPartition(t.topic, n) for t in topics if not t.topic.startswith("__") for n in t.partitions]
    return lambda: [consumer.get_watermark_offsets(tp, timeout=60.0) for tp in partitions]


if __name__ == "__main__":
    sys.exit(main())
